"""A file of lines. Its ending says whether it is compressed, as for files that are read."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from typing import IO, Any

from neardup_workers.outside.outputs.output import OutputFile
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.process.interpreter import zstd
from neardup_workers.outside.readers.formats import FORMATS
from neardup_workers.outside.readers.paths import display

# Ending -> a writer of that format over a file. No time of the clock goes in, so equal lines make equal files.
_PACKERS: dict[str, Callable[[IO[bytes]], Any]] = {
    ".gz": lambda file: gzip.GzipFile("", "wb", 6, file, 0),
    ".zst": lambda file: zstd.ZstdFile(file, "wb"),
}


def is_table(path: str | None) -> bool:
    """Whether a file to write is Parquet, by its name."""
    return path is not None and path.lower().endswith(FORMATS["parquet"].endings)


class LinesFile(OutputFile):
    """A file of lines, compressed if its name ends in ``.gz`` or ``.zst``; with ``follow``, written in place.

    Raises ``Failure`` if it cannot be written, if it would be Parquet, or if a compressed file is to be followed.
    """

    def __init__(self, path: str, what: str = "the pairs", *, follow: bool = False) -> None:
        packer = next((packer for ending, packer in _PACKERS.items() if path.lower().endswith(ending)), None)
        if is_table(path):
            raise Failure(
                Exit.USAGE, f"{display(path)} is Parquet, but {what} are lines of JSON: name a file with another ending"
            )
        if follow and packer is not None:
            raise Failure(
                Exit.USAGE,
                f"{display(path)} is compressed, so no program can read {what} while --follow writes them: name a file "
                "with another ending",
            )
        super().__init__(path, what, follow=follow)
        self._plain: IO[bytes] | None = None
        if packer is not None:
            self._plain, self.file = self.file, packer(self.file)

    def _shut(self) -> None:
        """Close the file; what is compressed ends before the file under it does."""
        super()._shut()
        if self._plain is not None:
            self._plain.close()
