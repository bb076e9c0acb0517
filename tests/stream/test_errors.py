"""Errors: what a caller may catch."""

from __future__ import annotations

import pytest

from neardup import stream
from neardup.stream import errors


def test_every_error_of_the_library_is_a_neardup_error() -> None:
    """One name catches every deliberate exception."""
    raised = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]
    assert len(raised) >= 3
    assert all(issubclass(error, stream.NeardupError) for error in raised)


def test_a_wrong_configuration_is_a_value_error_too() -> None:
    """Code that does not import the library's errors can catch it as a wrong value."""
    with pytest.raises(ValueError, match="threshold=7"):
        stream.Config(threshold=7)


def test_the_public_names_are_14_at_most_and_all_there() -> None:
    """The names that ``from neardup.stream import *`` gives."""
    assert len(stream.__all__) <= 14
    assert all(hasattr(stream, name) for name in stream.__all__)
    assert stream.__all__ == sorted(stream.__all__)
