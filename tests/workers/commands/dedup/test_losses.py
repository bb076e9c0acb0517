"""``dedup`` and ``batch`` do not lose a source in silence: nearly all of it falls to one original."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from neardup_workers.outside.options.documents import BatchOptions, DedupOptions
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.settings.load import load
from neardup_workers.running.commands.batch.corpus import run as batch
from neardup_workers.running.commands.dedup.command import run

NOTICE = "We and our partners store and access information on a device, such as cookies, to show you what you like."
WORDS = [f"{a}{b}{c}" for a in "bdfgk" for b in "aeiou" for c in ("lan", "ner", "sto", "mir")]


def written(folder: Path, pages: int, others: int, host: str = "news.example") -> str:
    """Pages of one host with the same notice, between other documents."""
    chance = random.Random(1)
    rows = [{"id": f"https://www.{host}/{n}", "text": NOTICE} for n in range(pages)]
    rows += [
        {"id": f"o{n}", "text": " ".join(chance.choices(WORDS, k=20)), "source": f"s{n % 9}"} for n in range(others)
    ]
    chance.shuffle(rows)
    (folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(folder / "in.jsonl")


@pytest.mark.parametrize(("others", "whose"), [(0, "of all"), (2_000, "of 'news.example'")])
def test_a_source_that_falls_to_one_text_is_not_lost(
    tmp_path: Path, others: int, whose: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The output of a file is refused, and both say so with the text; --allow-loss writes it."""
    path, kept = written(tmp_path, 300, others), str(tmp_path / "kept")
    said = rf"299 of 300 documents {whose} are duplicates of one text.*: 'We and our partners"
    for refused in (
        lambda: run(DedupOptions([path], output=kept), load({}, None)),
        lambda: batch(BatchOptions([path], quiet=True, output=kept), load({}, None)),
    ):
        with pytest.raises(Failure, match=said) as failed:
            refused()
        assert failed.value.code == Exit.REFUSED
        assert not Path(kept).exists()
    assert run(DedupOptions([path], output=kept, allow_loss=True), load({}, None)) == Exit.SUCCESS
    assert len(Path(kept).read_text().splitlines()) == others + 1
    assert f"WARNING: 299 of 300 documents {whose}" in capsys.readouterr().err


def test_standard_output_ends_with_the_code_of_a_loss(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """The lines are written already; with each line its verdict, none is lost."""
    path = written(tmp_path, 300, 0)
    assert run(DedupOptions([path]), load({}, None)) == Exit.REFUSED
    out, err = capfdbinary.readouterr()
    assert len(out.splitlines()) == 1
    assert b"WARNING: 299 of 300 documents of all" in err
    assert run(DedupOptions([path], annotate=True, quiet=True), load({}, None)) == Exit.SUCCESS


@pytest.mark.parametrize(("pages", "others", "host"), [(199, 0, "a.example"), (300, 2_000, "o.example")])
def test_few_documents_and_sources_that_have_more_are_no_loss(
    tmp_path: Path, pages: int, others: int, host: str
) -> None:
    """Of 200 documents at least, and 95 % of them, as for the brake of sources; other texts of the host count."""
    path = Path(written(tmp_path, pages, others, host))
    if others:
        path.write_text(path.read_text().replace('"source": "s', f'"source": "{host}", "x": "'))
    assert run(DedupOptions([str(path)], output=str(tmp_path / "kept")), load({}, None)) == Exit.SUCCESS
