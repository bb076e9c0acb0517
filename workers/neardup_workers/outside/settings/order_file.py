"""The file of a token order: a NumPy array (.npy) of ``uint64``, hashed tokens from the rarest to the most frequent."""

from __future__ import annotations

from typing import IO

import numpy as np
import numpy.typing as npt

from neardup.errors import ConfigError
from neardup.features.tokens.token_order import TokenOrder
from neardup_workers.outside.process.exits import input_failure
from neardup_workers.outside.remote.objects import open_file


def read_order(path: str) -> TokenOrder:
    """Return the order in a file. Raises ``Failure`` if it cannot be read, ``ConfigError`` if it is not an order."""
    try:
        with open_file(path) as file:
            tokens = np.load(file, allow_pickle=False)
    except OSError as error:
        raise input_failure(f"the token order in {path}", error) from None
    except (ValueError, EOFError):
        raise ConfigError(f"{path} holds no NumPy array: make one with neardup learn-order") from None
    return TokenOrder(tokens)


def write_order(file: IO[bytes], tokens: npt.NDArray[np.uint64]) -> None:
    """Write an order to a file. Raises ``OSError``."""
    np.save(file, tokens.astype("<u8"), allow_pickle=False)
