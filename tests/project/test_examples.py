"""The examples of ``docs/examples`` run on real data: each shows its claim, and the README holds its output."""

from __future__ import annotations

import contextlib
import csv
import io
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import nbformat
import pytest
from command import ROOT, clean_environment, without_compilation

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "examples"
README = FOLDER / "README.md"
Run = Callable[..., str]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run an example as a script and return what it prints."""

    def run_example(name: str, *arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        runpy.run_path(str(FOLDER / name), run_name="__main__")
        return capsys.readouterr().out

    return run_example


def functions(name: str) -> dict[str, Any]:
    return runpy.run_path(str(FOLDER / name))


def numbers(output: str, row: str) -> list[list[float]]:
    """The numbers of each line that begins with ``row``."""
    lines = [line.removeprefix(row) for line in output.splitlines() if line.startswith(row)]
    return [[float(x) for x in re.findall(r"\d+\.\d+", line)] for line in lines]


@pytest.mark.long
def test_news_pages_are_grouped_by_the_article_and_not_by_the_newspaper(
    real_data: Callable[[str], Path], run: Run
) -> None:
    """With stop-word shingles at .4 every found pair shares the article, and few are missed; 10-character shingles
    fail.
    """
    real_data("itn_multilingual")
    output = run("news.py", str(real_data("mccormick_minhash").parent))
    (article, paper), *prose = numbers(output, "stopwords")
    assert article > 0.5
    assert paper < 0.25
    assert [(precision, recall >= 0.95) for threshold, precision, recall in prose if threshold == 0.4] == [(1.0, True)]
    (article, paper), *characters = numbers(output, "chars")
    assert article == pytest.approx(1 / 3, abs=0.05)
    assert paper == pytest.approx(1 / 3, abs=0.05)
    assert max(recall for _, _, recall in characters) > 0.9
    assert max(precision for _, precision, _ in characters) < 0.1


def test_news_pages_of_a_clone_without_data_are_grouped_by_the_article(run: Run, tmp_path: Path) -> None:
    """They are made of the stories of the repository."""
    output = run(str(bare(tmp_path, "news.py", "wire.jsonl")))
    assert "40 pages: 8 articles, each in 5 newspapers" in output
    (article, paper), *prose = numbers(output, "stopwords")
    assert article > 0.5 > 0.1 > paper
    assert [(precision, recall > 0.9) for threshold, precision, recall in prose if threshold == 0.4] == [(1.0, True)]
    (article, paper), *characters = numbers(output, "chars")
    assert article < paper
    assert max(row[1] for row in characters if len(row) == 3) < 0.3  # others find no pair, so have no precision
    assert output in README.read_text(encoding="utf-8")


def bare(folder: Path, *names: str) -> Path:
    """Copies of files of the examples in a folder with no data next to it; returns the first."""
    examples = folder / "bare" / "docs" / "examples"
    examples.mkdir(parents=True)
    for name in names:
        (examples / name).write_bytes((FOLDER / name).read_bytes())
    return examples / names[0]


def test_passages_find_what_whole_texts_do_not(run: Run) -> None:
    """Sentences in another order are found by both, half of a text and two sentences by passages alone."""
    output = run("passages/plagiarism.py")
    rows = {line[:30].strip(): [float(x) for x in line[30:].split()] for line in output.splitlines()[1:]}
    whole = {name: row[0] for name, row in rows.items()}
    part = {name: max(row[1:3]) for name, row in rows.items()}
    assert min(whole["all of it"], whole["sentences in another order"]) > 0.9
    assert max(whole["half of it"], whole["two sentences"]) < 0.5
    assert min(part["all of it"], part["sentences in another order"]) > 0.9
    assert part["half of it"] > 0.5
    assert part["two sentences"] > 0.1
    assert part["nothing"] == 0
    assert output in README.read_text(encoding="utf-8")


@pytest.mark.long
def test_suspects_by_url_are_checked_by_their_texts(run: Run) -> None:
    """Few pairs are compared; another story of the same name is refused, and no copy is missed."""
    output = run("passages/suspects.py")
    pages, pairs, suspects = map(int, re.findall(r"\d+", output.splitlines()[0]))
    assert pairs == pages * (pages - 1) // 2 > 20 * suspects
    assert output.count("refused: ") == 1
    assert "copies that no URL suspects: 0" in output
    assert output in README.read_text(encoding="utf-8")


@pytest.mark.long
def test_folding_mirrors_makes_the_sources_of_links_similar(run: Run) -> None:
    """URLs alone find mirrors. A page and its copy share few links before folding and nearly all afterwards."""
    output = run("mirrors.py")
    ((precision, recall),) = numbers(output, "mirrors by their URLs")
    assert precision > 0.9
    assert recall > 0.85
    ((similarity_before, joined_before),) = numbers(output, "as they are")
    ((similarity_after, joined_after),) = numbers(output, "folded")
    assert similarity_before < 0.2
    assert joined_before < 0.1
    assert similarity_after > 0.85
    assert joined_after > 0.85
    cascade = [list(map(float, line.split())) for line in output.split("one node\n")[1].splitlines()]
    assert len(cascade) > 2
    nodes, similarities, folded = list(zip(*cascade, strict=True))[1:]
    assert list(nodes) == sorted(set(nodes), reverse=True)
    assert list(similarities) == sorted(similarities)
    assert folded[-1] > folded[0] + 0.1


def test_a_fold_makes_the_next_one_until_a_pass_changes_nothing() -> None:
    """Pages a are copies by their links, b when a is one node, c when b is; d has another path, e other links."""
    example = functions("mirrors.py")
    graph = {
        ("s", "d"): {("s", "1"), ("s", "2")},
        **{(host, "a"): {("s", "1"), ("s", "2")} for host in "xy"},
        **{(host, "b"): {(host, "a"), ("s", "3"), (host, "q")} for host in "xy"},
        **{(host, "c"): {(host, "a"), (host, "b"), (host, "q")} for host in "xy"},
        **{(host, "e"): {(host, "a"), (host, "q"), (host, "r")} for host in "xy"},
    }
    passes = list(example["cascade"](graph, example["Contents"]([])))
    same = [{path for path in "abceq" if nodes["x", path] == nodes["y", path]} for _, nodes in passes]
    assert same == [set(), {"a"}, {"a", "b"}, {"a", "b", "c"}]
    assert all(nodes["s", "d"] == "s/d" for _, nodes in passes)
    last, _ = passes[-1]
    assert example["similarity"](last["x", "c"], last["y", "c"]) == 0.5


def test_links_are_those_that_modules_import(tmp_path: Path) -> None:
    """Imports are absolute or relative, of modules or packages, inside the folder only."""
    (tmp_path / "a" / "tests").mkdir(parents=True)
    (tmp_path / "a" / "__init__.py").write_text("import sys\nfrom . import b\n")
    (tmp_path / "a" / "b.py").write_text("import c\nfrom a.d import x\nif x:\n    from ..a import __init__\n")
    (tmp_path / "a" / "d.py").write_text("from .b import y\n# import c\n")
    (tmp_path / "a" / "tests" / "e.py").write_text("import c\n")
    (tmp_path / "c.py").write_text("import c, a.nothing\nimport a.nothing\n")
    assert functions("mirrors.py")["tree"](tmp_path) == {
        "a/__init__.py": set(),
        "a/b.py": {"c.py", "a/d.py", "a/__init__.py"},
        "a/d.py": {"a/b.py"},
        "c.py": {"a/__init__.py"},
    }


def test_a_buyer_is_offered_what_similar_buyers_have() -> None:
    """B1 has A and B; B2 has A, B and D. D is the item most similar to A and B."""
    example = functions("basket.py")
    bought, exact = example["TOY"], example["EXACT"].model_copy(update={"threshold": 0.05})
    buyers, items = example["similar"](bought, exact), example["similar"](example["inverted"](bought), exact)
    assert buyers["B1"] == pytest.approx({"B2": 2 / 3, "B3": 1 / 4})
    assert buyers["B2"]["B3"] == pytest.approx(1 / 2)
    assert items["A"] == pytest.approx({"B": 2 / 3, "C": 1 / 3, "D": 2 / 3})
    assert items["B"] == pytest.approx({"A": 2 / 3, "D": 1 / 3})
    near = example["similar"](bought, example["EXACT"])
    assert example["by_buyers"](bought, near, "B1") == [("D", pytest.approx(2 / 3))]
    assert example["by_items"](bought, items, "B1") == [("D", pytest.approx(1)), ("C", pytest.approx(1 / 3))]


@pytest.mark.long
def test_fingerprints_are_found_and_compared_as_often_as_the_textbook_computes(run: Run) -> None:
    """Independent functions give .985 and .063, in two groups .970 and .0040; what is measured fits the exact law."""
    output = run("fingerprints.py")
    assert "a function says yes to both: one finger 0.004096, two fingers 0.000064" in output
    (groups, *one), (again, *two) = ([float(x) for x in line.split()] for line in output.splitlines()[-2:])
    assert (groups, again) == (1, 2)
    assert (one[0], one[3], two[0], two[3]) == (0.985, 0.0634, 0.970, 0.0040)
    for book, law, measured, book_false, law_false, measured_false in (one, two):
        assert book - 0.02 < law < book
        assert measured == pytest.approx(law, abs=4 * (law * (1 - law) / 2000) ** 0.5)
        assert law_false == pytest.approx(book_false, abs=0.001)
        assert measured_false == pytest.approx(law_false, rel=0.1)
    assert output in README.read_text(encoding="utf-8")


def test_buyers_without_a_common_item_meet_by_groups_of_items(run: Run, tmp_path: Path) -> None:
    """Films that the same buyers have are one group; also in a clone without data, where all drawn pairs are found."""
    example = functions("basket.py")
    alike = [
        example["pairs_of"](example["similar"](sets, example["EXACT"]))
        for sets in (example["FILMS"], example["grouped"](example["FILMS"], 1 / 4))
    ]
    comets = {(a, b) for a, b in combinations(("C1", "C2", "C3", "C4"), 2)}
    assert ("C1", "C2") not in alike[0]
    assert alike[1] == comets | {("C5", "C6")}
    output = run(str(bare(tmp_path, "basket.py")))
    known, found = (re.search(pattern, output) for pattern in (r"(\d+) known pairs", r"prefix: (\d+) of .*, 0 others"))
    assert known
    assert found
    assert int(found[1]) == int(known[1]) > 50


@pytest.mark.long
def test_similar_baskets_are_the_known_ones(real_data: Callable[[str], Path], run: Run) -> None:
    """The index of prefixes finds exactly the known baskets; signatures find nearly all of them and no other."""
    folder = real_data("itemsets_fimi")
    example = functions("basket.py")
    lines = (folder / "foodmart.dat").read_text(encoding="utf-8").splitlines()
    bought = {str(number): line.split() for number, line in enumerate(lines)}
    with (folder / "foodmart_pairs_j050.csv").open(encoding="utf-8") as file:
        known = {
            tuple(sorted((row["a"], row["b"]))): int(row["inter"]) / int(row["union"]) for row in csv.DictReader(file)
        }
    near = example["similar"](bought, example["EXACT"])
    assert {(a, b): near[a][b] for a, b in example["pairs_of"](near)} == pytest.approx(known)
    signed = example["pairs_of"](example["similar"](bought, example["SIGNED"]))
    assert signed <= known.keys()
    assert len(signed) > 0.9 * len(known)


@pytest.mark.long
def test_the_basket_example_prints_what_its_readme_says(real_data: Callable[[str], Path], run: Run) -> None:
    """The output is equal to the last digit, including ratings as bags of stars."""
    output = run("basket.py", str(real_data("itemsets_fimi").parent))
    assert "B1 is offered, by buyers: D" in output
    assert "similarity=0.5," in output
    assert output in README.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["news.py", "mirrors.py", "basket.py"])
def test_an_example_without_its_data_ends_with_a_sentence(name: str, run: Run, tmp_path: Path) -> None:
    """The sentence names the searched folder and the option to set."""
    with pytest.raises(SystemExit) as ended:
        run(name, str(tmp_path))
    assert re.fullmatch(r".+(holds no|is no) .+: name (the|a) folder .+", str(ended.value))
    assert str(tmp_path) in str(ended.value)


@pytest.mark.processes
def test_the_session_of_the_front_page_prints_what_the_page_shows() -> None:
    """It runs on the file of the repository; the output is equal except for figures that differ from run to run."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = page.split("    $ neardup dedup docs/examples/news.jsonl > kept.jsonl\n")[1].split("\n\n")[0]
    done = subprocess.run(
        [sys.executable, "-m", "neardup", "dedup", "docs/examples/news.jsonl"],
        capture_output=True, cwd=ROOT, env=clean_environment(), check=True, text=True,
    )  # fmt: skip
    lines = without_compilation(done.stderr.splitlines())
    *begin, last = [line.removeprefix("    ") for line in shown.splitlines()]
    assert begin == lines[: len(begin)]
    assert last == "..."
    assert len(lines) > len(begin)


@pytest.mark.processes
def test_the_sources_of_the_readme_are_what_the_command_writes(tmp_path: Path) -> None:
    """The first columns of the first rows."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    [command] = re.findall(r"^    \$ neardup (dedup .*--sources sources\.csv)$", page, re.M)
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    subprocess.run(
        [sys.executable, "-m", "neardup", *command.split()], cwd=tmp_path, env=clean_environment(), check=True
    )
    rows = (tmp_path / "sources.csv").read_text(encoding="utf-8").splitlines()[:2]
    shown = page.split(f"{command}\n")[1].splitlines()[1:3]
    assert [line.strip() for line in shown] == [",".join(row.split(",")[:4]) for row in rows]


def cells_of(name: str) -> list[nbformat.NotebookNode]:
    """The cells of code of a notebook, which is valid and was run from its first cell on."""
    notebook = nbformat.read(FOLDER / name, as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert len(cells) > 3
    return cells


def assert_printed(cells: list[nbformat.NotebookNode]) -> None:
    """All cells, in order and in one process: each prints what it shows."""
    names: dict[str, object] = {}
    for cell in cells:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(cell.source, f"cell {cell.execution_count}", "exec"), names)
        shown = [output.text for output in cell.outputs if output.output_type == "stream"]
        assert printed.getvalue() == "".join(shown)


def test_the_cells_of_the_notebook_print_what_it_shows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No cell shows anything but what it prints, and none writes a file."""
    monkeypatch.chdir(tmp_path)
    cells = cells_of("frames.ipynb")
    assert_printed(cells)
    assert {output.output_type for cell in cells for output in cell.outputs} == {"stream"}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_the_notebook_of_two_books_shows_their_quotes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, real_data: Callable[[str], Path]
) -> None:
    """What its cells print of the books, and a picture."""
    books = real_data("textreuse_legal") / "ats"
    for name in ("memoirjamesbrai00ricegoog.txt", "practicalthought00nev.txt"):
        (tmp_path / name).symlink_to(books / name)
    monkeypatch.chdir(tmp_path)
    cells = cells_of("quotes.ipynb")
    assert_printed(cells)
    [picture] = [output for cell in cells for output in cell.outputs if output.output_type != "stream"]
    assert "image/png" in picture.data
