"""The type of the fixture `make_topic`, in its own file because every folder of tests has a `conftest`."""

from __future__ import annotations

from typing import Protocol


class MakeTopic(Protocol):
    """Creates a topic whose name begins with the given text and with settings such as `retention_ms=1000`; returns its
    name.
    """

    def __call__(self, name_prefix: str, partitions: int = 1, **configs: object) -> str: ...
