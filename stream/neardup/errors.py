"""Errors that a caller can act on. A broken invariant raises ``AssertionError`` instead."""

from __future__ import annotations

import re
from functools import cache


class NeardupError(Exception):
    """Base class of all errors of the project. The text is one sentence: the value, the rule, the remedy."""


class ConfigError(NeardupError, ValueError):
    """A configuration cannot work. The text names the value, the rule it breaks and what to set instead."""


class CapacityError(NeardupError):
    """A structure reached a limit of its design. The text names the limit and how to stay below it."""


class Reason(str):
    """Why input is refused, instead of what was asked for: a key of ``REASONS`` or of a table like it, or a phrase.

    It equals its key, and ``isinstance`` tells it from a text.

    >>> Reason("no_text") == "no_text", isinstance("no_text", Reason)
    (True, False)
    """

    __slots__ = ()


def install_command(extra: str) -> str:
    """The command that installs what an optional part needs, for example ``pip install 'pyarrow>=18'``.

    ``extra`` is a key of ``optional-dependencies`` in ``pyproject.toml``. The command names the packages themselves, as
    the installed metadata has them: this project is not published, so its name installs nothing, or the package of a
    stranger, and a path needs a clone.
    """
    wanted = re.findall(rf"^Requires-Dist: ([^;\n]+?) *; extra == [\"']{extra}[\"']", _metadata(), re.MULTILINE)
    return " ".join(["pip install", *(f"'{requirement}'" for requirement in wanted or [f".[{extra}]"])])


@cache
def _metadata() -> str:
    from importlib import metadata  # its import takes longer than that of this module

    try:
        return metadata.distribution("neardup").read_text("METADATA") or ""
    except metadata.PackageNotFoundError:  # a clone that is not installed
        return ""
