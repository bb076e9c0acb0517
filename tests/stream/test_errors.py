"""Errors: what a caller may catch."""

from __future__ import annotations

import pytest

import neardup
from neardup import errors


def test_every_error_of_the_library_is_a_neardup_error() -> None:
    """One name catches every deliberate exception."""
    raised = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]
    assert len(raised) >= 3
    assert all(issubclass(error, neardup.NeardupError) for error in raised)


def test_a_wrong_configuration_is_a_value_error_too() -> None:
    """Code that does not import the library's errors can catch it as a wrong value."""
    with pytest.raises(ValueError, match="threshold=7"):
        neardup.Config(threshold=7)


def test_the_public_names_are_17_at_most_and_all_there() -> None:
    """The names that ``from neardup import *`` gives."""
    assert len(neardup.__all__) <= 17
    assert all(hasattr(neardup, name) for name in neardup.__all__)
    assert neardup.__all__ == sorted(neardup.__all__)
