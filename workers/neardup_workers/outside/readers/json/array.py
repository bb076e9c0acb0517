"""A JSON array -> its elements, each as a line of JSON; and objects one after the other, as they are in an array.
The bytes in memory are bounded for arrays of any length.

The elements are split by brackets and quotes and not parsed here. So an element that is not JSON is one refusal, and
the next element is read. A ``Line`` is numbered by its position in the array, from 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from neardup.errors import Reason
from neardup_workers.outside.readers.lines import BOM, IDLE, Line

# The characters that change the state outside of strings, and the rest of a string.
_MARKS = re.compile(rb'[\[\]{}",]')
_IN_STRING = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)
_SPACE = b" \t\r\n"
_DAMAGED = "array_damaged"


def array_lines(blocks: Iterable[bytes | None], bytes_max: int) -> Iterator[Line]:
    """Each element of the array, or each object, that the blocks hold, as a line.

    An empty block becomes ``IDLE``. An element of more than ``bytes_max`` bytes comes in parts. Content that ends
    within an array or an object, or goes on behind an array, ends with a line whose reason is ``array_damaged``.

    >>> [line.raw for line in array_lines([b'[{"id": 1}, ', b'{"id": 2}]'], 99)]
    [b'{"id": 1}', b'{"id": 2}']
    """
    state = _Array(bytes_max)
    for block in blocks:
        if not block:
            yield IDLE
        else:
            yield from state.lines(block)
    yield from state.end()


class _Array:
    """The state between two blocks: ``depth`` 0 before the array, 1 in it, 2 and more in an element; -1 after it.
    ``is_bare``: it has no brackets, so objects follow each other without commas."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.depth = 0
        self.is_bare = False
        self.in_string = False
        self.number = 1
        self.held = bytearray()  # bytes of the present element
        self.searched = 0  # bytes of ``held`` that were searched
        self.is_part = False  # a part of the element was returned already
        self.damaged = False

    def lines(self, block: bytes) -> Iterator[Line]:
        """The elements that a block completes."""
        if self.damaged:
            return
        data = self.held
        data += block
        if self.depth == 0:
            head = data.removeprefix(BOM)
            del data[: len(data) - len(head.lstrip(_SPACE))]
            if not data:
                return
            self.is_bare = data.startswith(b"{")
            if not self.is_bare:
                if not data.startswith(b"["):
                    yield self._damage(bytes(data))
                    return
                del data[:1]
            self.depth = 1
        begin, at, mark = 0, self.searched, b""
        while self.depth > 0 and (at := self._next(data, at)) >= 0:
            mark, at = bytes(data[at : at + 1]), at + 1
            if mark in (b"[", b"{"):
                self.depth += 1
                continue
            if mark == b'"':
                self.in_string = True
                continue
            is_inner = self.depth > 1
            self.depth -= is_inner and mark != b","
            if is_inner and not (self.is_bare and self.depth == 1 and mark != b","):
                continue
            raw = bytes(memoryview(data)[begin : at if is_inner else at - 1]).rstrip(_SPACE)
            raw = raw if self.is_part else raw.lstrip(_SPACE)
            if raw or self.is_part:
                yield self._element(raw)
            begin = at
            if not is_inner and mark != b",":
                self.depth = -1
        if self.depth == -1:
            rest = bytes(data[begin:])
            data.clear()
            self.searched = 0
            if rest.strip(_SPACE) or mark == b"}" or self.is_bare:
                yield self._damage(rest)
            return
        del data[:begin]
        self.searched -= begin
        if self.searched > self.bytes_max:
            part = bytes(data[: self.searched])
            del data[: self.searched]
            self.searched, self.is_part = 0, True
            yield Line(self.number, part, True, False)

    def end(self) -> Iterator[Line]:
        """The rest after the last block."""
        if self.is_bare and self.depth == 1 and not (self.is_part or self.held.strip(_SPACE)):
            return
        if self.depth != -1 and not self.damaged:
            if self.is_part:
                yield self._element(bytes(self.held))
            yield self._damage(bytes(self.held))

    def _next(self, data: bytearray, at: int) -> int:
        """Return the position of the next mark outside of strings, -1 if there is none yet."""
        if self.in_string:
            match = _IN_STRING.match(data, at)
            at = match.end() if match else at
            if data[at : at + 1] != b'"':
                self.searched = at
                return -1
            self.in_string, at = False, at + 1
        mark = _MARKS.search(data, at)
        self.searched = mark.start() if mark else len(data)
        return mark.start() if mark else -1

    def _element(self, raw: bytes) -> Line:
        line = Line(self.number, raw.replace(b"\n", b" "), self.is_part)
        self.number, self.is_part = self.number + 1, False
        return line

    def _damage(self, raw: bytes) -> Line:
        self.damaged = True
        return Line(self.number, raw[: self.bytes_max].replace(b"\n", b" "), reason=Reason(_DAMAGED))
