"""Functions of the user that a setting names as ``package:function``."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


def function_at(path: str) -> Callable[..., Any]:
    """Import the function that ``package:function`` names.

    Raises ``ValueError``, whose text follows the name of the setting and its value.
    """
    module, _, name = path.partition(":")
    try:
        function = getattr(import_module(module), name)
    except Exception as error:  # the import runs the user's module, which may raise anything
        raise ValueError(
            f"cannot be loaded ({type(error).__name__}: {error}): write package:function of a package that is "
            "installed here"
        ) from error
    if not callable(function):
        raise ValueError("is no function: write package:function")
    return function  # type: ignore[no-any-return]
