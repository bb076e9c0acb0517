"""``neardup passages --templates`` lists what documents repeat, and ``passage_templates`` leaves it out."""

from __future__ import annotations

import json
import random
from collections import Counter

import numpy as np
import pytest
from benchmarks.recall.passages import prose

from neardup.errors import ConfigError
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.settings.load import load
from neardup_workers.outside.settings.value_files import read_templates
from neardup_workers.running.commands.templates import repeated

RNG = random.Random(1)
MENUS = {name: prose(RNG, "az", 600) for name in ("post", "mirror")}


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """Twelve pages of each of two hosts and their menus, four without a menu, and copies of one of these."""
    monkeypatch.chdir(tmp_path)
    rng = random.Random(2)
    pages = [
        {"id": f"{name}-{i}", "source": name, "text": f"{menu} {prose(rng, 'az', 900)}"}
        for i in range(12)
        for name, menu in MENUS.items()
    ]
    pages += [{"id": f"plain-{i}", "text": prose(rng, "az", 900)} for i in range(4)]
    pages += [{**pages[-1], "id": f"copy-{i}"} for i in range(90)]
    (tmp_path / "pages.jsonl").write_text("\n".join(map(json.dumps, pages)))
    return tmp_path


def test_menus_are_listed_and_left_out(neardup, folder):
    """Each with its source; a text that is copied whole is none. With the list, pages share nothing else."""
    done = neardup("passages", "pages.jsonl", "--templates", "-o", "list.jsonl")
    assert done.returncode == Exit.SUCCESS, done.stderr
    assert b"2 templates of 118 documents" in done.stderr
    found = [json.loads(line) for line in (folder / "list.jsonl").read_text().splitlines()]
    for line in found:
        assert MENUS[line["source"]] in line["text"]
        assert len(line["text"]) < len(MENUS[line["source"]]) + 5
        assert (line["documents"], line["source_fraction"]) == (12, 1.0)
        assert line["example"] == f"{line['source']}-0"
    command = ["run", "-q", "pages.jsonl", "--scheme"]
    pairs = [
        [json.loads(line) for line in neardup(*command, scheme).stdout.splitlines()]
        for scheme in ("passages", "passages:templates=list.jsonl", "parts:templates=list.jsonl")
    ]
    with (folder / "list.jsonl").open("a") as file:
        file.write('{"text":"all rights reserved"}\n')
    done = neardup("run", "pages.jsonl", "--scheme", "parts:templates=list.jsonl")
    assert b"note: texts of parts:templates with fewer than 6 words count for nothing: 1\n" in done.stderr
    assert [json.loads(line) for line in done.stdout.splitlines()] == pairs[2]
    copies = [pair for pair in pairs[0] if pair["similarity"] == 1]
    assert len(copies) == 90
    assert len(pairs[0]) == 90 + 2 * 66
    assert pairs[1] == copies
    assert [(pair["older"], pair["newer"]) for pair in pairs[2]] == [(pair["older"], pair["newer"]) for pair in copies]


def test_the_whole_corpus_is_counted_too(neardup, folder):
    """Without sources, a text of N documents is a template."""
    asked = ["passages", "pages.jsonl", "--templates", "--fields", "source=none", "-q"]
    assert neardup(*asked).stdout == b""
    found = [json.loads(line) for line in neardup(*asked, "--documents", 12).stdout.splitlines()]
    assert [(line["documents"], set(line) & {"source"}) for line in found] == [(12, set())] * 2


@pytest.mark.parametrize("seed", range(20))
def test_hashes_are_counted_as_in_plain_python(seed):
    """By contents, and by the source of which they are the largest part."""
    rng = random.Random(seed)
    names = ["", "a", "b", "c"][: rng.randint(1, 4)]
    contents = [(rng.randrange(len(names)), set(rng.choices(range(12), k=rng.randint(0, 6)))) for _ in range(60)]
    counts = Counter(source for source, _ in contents)
    rows = [(hash_, source) for source, held in contents for hash_ in held]
    rng.shuffle(rows)
    columns = [np.array([row[i] for row in rows], kind) for i, kind in ((0, np.uint64), (1, np.int32))]
    found = repeated(*columns, np.array([counts[i] for i in range(len(names))]), names, 25)
    expected = {}
    for hash_ in {row[0] for row in rows}:
        of = Counter(source for held, source in rows if held == hash_)
        parts = {i: of[i] / counts[i] for i in of if names[i] and of[i] >= 8}
        best = max(parts.values(), default=0.0)
        if of.total() >= 25 or best >= 0.2:
            expected[hash_] = of.total(), pytest.approx(best), {i for i in parts if parts[i] == best} or {-1}
    assert found.hashes.tolist() == sorted(expected)
    for hash_, total, source, part in zip(*(column.tolist() for column in found[:4]), strict=True):
        assert (total, part) == expected[hash_][:2]
        assert source in expected[hash_][2]


@pytest.mark.parametrize(
    ("words", "message"),
    [(("pages.jsonl",), b"add --templates"), (("-", "--templates"), b"name files, not standard input")],
)
def test_a_question_that_cannot_be_answered_is_refused(neardup, folder, words, message):
    """Before anything is read."""
    done = neardup("passages", *words)
    assert (done.returncode, message in done.stderr) == (Exit.USAGE, True)


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (None, Failure, r"^cannot read the templates in list.jsonl: No such file"),
        (b"\n", ConfigError, r"list.jsonl holds no template: leave it out$"),
        (b'{"text":"a"}\nmenu\n', ConfigError, r'line 2 of list.jsonl is no object of JSON with a "text": write one'),
        (b'{"text":5}', ConfigError, r"line 1 of list.jsonl is no object"),
        (b" " * (1 << 24) + b" ", ConfigError, r"longer than 16,777,216 bytes"),
    ],
)
def test_a_file_without_templates_is_refused(folder, content, error, message):
    """With the line, the rule and the remedy."""
    if content is not None:
        (folder / "list.jsonl").write_bytes(content)
    with pytest.raises(error, match=message):
        load({"scheme": "passages:templates=list.jsonl"})


def test_every_text_of_a_file_is_read(folder):
    """Whatever else its lines have."""
    (folder / "list.jsonl").write_bytes(b'{"text":"a menu","documents":9}\n\n{"text":"a header"}\n')
    assert read_templates("list.jsonl") == ("a menu", "a header")
