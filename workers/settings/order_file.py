"""The file of a token order: a NumPy array (.npy) of ``uint64``, hashed tokens from the rarest to the most frequent."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt

from neardup.stream.errors import ConfigError
from neardup.stream.tokens.token_order import TokenOrder
from neardup.workers.process.exits import input_failure, output_failure


def read_order(path: str) -> TokenOrder:
    """Return the order in a file. Raises ``Failure`` if it cannot be read, ``ConfigError`` if it is not an order."""
    try:
        with Path(path).open("rb") as file:
            tokens = np.load(file, allow_pickle=False)
    except OSError as error:
        raise input_failure(f"the token order in {path}", error) from None
    except (ValueError, EOFError):
        raise ConfigError(f"{path} holds no NumPy array: make one with neardup learn-order") from None
    return TokenOrder(tokens)


@contextmanager
def written_order(path: str) -> Iterator[Callable[[npt.NDArray[np.uint64]], None]]:
    """Return a function that writes tokens to a file atomically: the file is complete or unchanged.

    Raises ``Failure`` if the file cannot be written; a missing folder is detected at the beginning.
    """
    unfinished = f"{path}.{os.getpid()}"

    def write(tokens: npt.NDArray[np.uint64]) -> None:
        np.save(file, tokens.astype("<u8"), allow_pickle=False)
        file.close()
        Path(unfinished).replace(path)

    try:
        with Path(unfinished).open("wb") as file:
            yield write
    except OSError as error:
        raise output_failure(f"the token order to {path}", error) from None
    finally:
        with suppress(OSError):
            Path(unfinished).unlink()
