"""A scheme with its options as one text, ``records:bands=16,keys=email``: what options, files and variables hold.

Commas separate options. A part without ``=`` is one more value of the list before it, and the name of a list may stand
again: ``records:keys=email,phone,nicknames=bob=robert,nicknames=bill=william``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import get_args, get_origin

from neardup.errors import ConfigError
from neardup.schemes.parameters import SchemeOptions
from neardup.schemes.rows import SCHEMES


def split_scheme(text: str) -> tuple[str, dict[str, object]]:
    """Split a text into the name of a scheme and its options, as texts and tuples of texts.

    An unknown scheme has no options here, because ``Config`` refuses its name. Raises ``ConfigError`` for an unknown
    option, for one that is given twice, and for a part that is none.

    >>> split_scheme("records:keys=email,phone,bands=16")
    ('records', {'keys': ('email', 'phone'), 'bands': '16'})
    """
    name, colon, rest = text.partition(":")
    name = name.strip()
    if not colon or name not in SCHEMES:
        return name, {}
    options, lists = SCHEMES[name].options, _lists(SCHEMES[name].options)
    out: dict[str, object] = {}
    values: dict[str, tuple[str, ...]] = {}
    option = ""
    for part in rest.split(","):
        head, equals, value = (piece.strip() for piece in part.partition("="))
        option = head if equals else option
        if equals and head not in options.model_fields:
            raise ConfigError(unknown_option(name, head))
        if option in lists:
            values[option] = (*values.get(option, ()), value if equals else head)
        elif not equals:
            raise ConfigError(
                f"scheme={text!r}: {head!r} is no option: write NAME=VALUE with commas between; neardup help schemes "
                "lists the options of each scheme"
            )
        elif option in out:
            raise ConfigError(f"scheme={text!r} has {option} twice: leave one out")
        else:
            out[option] = value
    return name, {**values, **out}


def scheme_text(name: str, options: SchemeOptions) -> str:
    """Return the text of a scheme with the options that are not at their defaults, but not those in files.

    >>> scheme_text("records", SCHEMES["records"].options(keys=("phone", "email"), nicknames=("bob=rob",), bands=16))
    'records:keys=phone,email,nicknames=bob=rob'
    """
    return text_of(name, {
        option: getattr(options, option)
        for option, field in type(options).model_fields.items()
        if getattr(options, option) != field.default and option not in options.in_files
    })  # fmt: skip


def text_of(name: str, options: Mapping[str, object]) -> str:
    """Return the text of a scheme with these options: the inverse of ``split_scheme``."""
    parts = [part for option, value in options.items() for part in _parts(option, value)]
    return f"{name}:{','.join(parts)}" if parts else name


def unknown_option(scheme: str, option: str) -> str:
    """Return the sentence that refuses an option that a scheme does not have."""
    names = ", ".join(SCHEMES[scheme].options.model_fields)
    known = f"its options are {names}" if names else "it has no options"
    return f"unknown option {option!r} of scheme {scheme}: {known}"


def _parts(option: str, value: object) -> Iterator[str]:
    """Yield an option as the parts between commas."""
    if not isinstance(value, tuple):
        yield f"{option}={value}"
        return
    for at, item in enumerate(value or ("",)):
        yield f"{option}={item}" if at == 0 or "=" in item else item


def _lists(options: type[SchemeOptions]) -> set[str]:
    """The options with several values."""
    return {
        name
        for name, field in options.model_fields.items()
        if tuple in [get_origin(kind) for kind in (field.annotation, *get_args(field.annotation))]
        and name not in options.in_files
    }
