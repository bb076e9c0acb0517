"""Lines of flat JSON that are read together: the entries are those of lines that are read one by one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup import Config
from neardup.documents.document import Document
from neardup.pairs.json_lines import Fields
from neardup.pairs.pipeline import Matcher
from neardup.pairs.signing import Signer
from neardup.stories.verdicts.decider import Decider
from neardup_workers.doing.session.session import Chunk, judged
from neardup_workers.outside.outputs.verdict_lines import verdict_lines
from neardup_workers.outside.process.stop import Stop
from neardup_workers.outside.readers.entries import Entry, LineRows
from neardup_workers.outside.readers.lines import BOM, Line, Run, flattened, split_runs
from neardup_workers.outside.readers.reader import EntryReader
from neardup_workers.outside.settings.files import Settings

FLAT = [b'{"id":"a","text":"one","timestamp":5}', '{"id":"é","text":"zwei"}'.encode(), b' {"text":"x","id":7}\r']
OTHERS = [
    b'{"text":"without an id"}', b'{"id":"a","text":"x","tags":["b"]}', b"", b" \t", b"{", b'{"id":"a","text":"\xff"}',
    b'{"id":"\xff","text":"x"}', b'{"id":1.5,"text":"x"}', b'{"id":"a","text":"' + b"long" * 400 + b'"}',
]  # fmt: skip
CONTENTS = st.lists(st.sampled_from(FLAT * 4 + OTHERS), min_size=1, max_size=40)


def reader(settings: Settings) -> EntryReader:
    return EntryReader(settings, Fields(), Stop(), lambda part: None)


def entries(path: Path, *, together: bool, line_ids: bool = True) -> list[Entry | None]:
    """The entries of a file, read with rows or line by line."""
    one = reader(Settings(line_ids=line_ids, line_bytes_max=1024, input_format="lines"))
    one._flat = together
    return list(one.read([str(path)]))


@given(CONTENTS, st.booleans(), st.booleans(), st.booleans())
def test_rows_of_lines_are_the_entries_of_each_line(
    tmp_path_factory: pytest.TempPathFactory, content: list[bytes], has_mark: bool, is_ended: bool, line_ids: bool
) -> None:
    """With unusual lines, blank lines, lines without an id and lines that are too long among them."""
    path = tmp_path_factory.mktemp("lines") / "in.jsonl"
    path.write_bytes(BOM * has_mark + b"\n".join(content) + b"\n" * is_ended)
    wanted = entries(path, together=False, line_ids=line_ids)
    assert entries(path, together=True, line_ids=line_ids) == wanted


def test_flat_lines_come_as_rows_of_a_chunk(tmp_path: Path) -> None:
    """2,048 at a time; of a chunk with another line, 256 lines at most come one by one."""
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"\n".join([*FLAT[:1] * 2148, OTHERS[1], *FLAT[:1] * 1947, b""]))
    parts = list(reader(Settings(input_format="lines")).parts([str(path)]))
    assert [len(part) for part in parts if isinstance(part, LineRows)] == [2048, 256, 512, 1024]
    assert len([part for part in parts if isinstance(part, Entry)]) == 256
    numbers = [entry.line for part in parts for entry in (part if isinstance(part, LineRows) else [part]) if entry]
    assert numbers == list(range(1, 4097))


def test_verdicts_of_rows_are_those_of_each_line(tmp_path: Path) -> None:
    """A refused line has its id and its reason, and no other line is decoded again."""
    path, config = tmp_path / "in.jsonl", Config()
    names = ["a", "empty", "é\u202e", "'q'", "copy", "a"]
    texts = ["some words of a text", "", "other words of a text", "third", "some words of a text", "fourth"]
    lines = [orjson.dumps({"id": id_, "text": text}) for id_, text in zip(names, texts, strict=True)]
    path.write_bytes(b"\n".join([*lines, b""]))
    (rows,) = reader(Settings(input_format="lines")).parts([str(path)])
    assert isinstance(rows, LineRows)
    signed = Signer(config).sign(rows.documents)
    entries, reasons = judged(Chunk(rows, rows.documents), signed)
    accepted = np.array([n not in reasons for n in range(len(rows))])
    decided = Decider(Matcher(config)).decide_columns(accepted, signed)
    wanted, read, decode = list(verdict_lines(list(rows), reasons, decided)), list[int](), rows._decode
    rows._decode = lambda raw, number: read.append(number) or decode(raw, number)  # type: ignore[func-returns-value]
    assert list(verdict_lines(entries, reasons, decided)) == wanted
    assert [orjson.loads(line).get("id") for line in wanted] == names
    assert [orjson.loads(line).get("reason") for line in wanted] == [None, "empty", None, None, None, None]
    assert read == [2]


@given(st.lists(st.sampled_from([b"a", b"", b" ", b"bb"]), max_size=20), st.integers(1, 7))
def test_blank_lines_of_a_run_are_counted(content: list[bytes], size: int) -> None:
    """Consecutive ones are one line with line feeds in it, and every line keeps its number."""
    whole = b"".join(line + b"\n" for line in content)
    blocks = [whole[at : at + size] for at in range(0, len(whole), size)]

    def numbered(lines: Iterator[Line | Run]) -> Iterator[tuple[int, bytes]]:
        for line in flattened(lines):
            yield from enumerate(line.raw.split(b"\n"), line.number)

    assert list(numbered(split_runs(blocks, 9))) == list(enumerate(content, 1))


def test_lines_of_marks_alone_are_blank(tmp_path: Path) -> None:
    """A byte order mark of an empty file that was joined to others, and a record separator, are no documents."""
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"\n".join([FLAT[0], BOM, b"\x1e", b"\x1e" + FLAT[0], BOM + b" \r", b""]))
    read = reader(Settings(input_format="lines"))
    found = [one for part in read.parts([str(path)]) for one in (part if isinstance(part, LineRows) else [part])]
    assert [(entry.line, isinstance(entry.found, Document)) for entry in found if entry] == [(1, True), (4, True)]
    assert read.blank_lines == 3
