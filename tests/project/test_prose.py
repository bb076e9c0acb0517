"""Plain English: words that have no place in any file, and the glossary."""

from __future__ import annotations

import re
import tokenize
from pathlib import Path

from import_path import ROOTS
from python_files import FOLDERS, ROOT, named, text_of

# Words with a private or an old-fashioned meaning -> what to write.
PRIVATE_WORDS = {
    "told": "reported, derived, known",
    "put out": "fenced",
    "anew": "again; restart",
    "for ever": "forever",
    "whoever": "name who: the caller, a reader, another process",
    "nobody": "name who: no process, no caller; or the passive",
    "lest": "so that ... not",
    "beside": "next to, in addition to",
}
# No sentence and no name has one of them. An underscore counts as a space: ``was_told`` is refused too.
PRIVATE_WORD = re.compile(rf"(?<![a-z])({'|'.join(PRIVATE_WORDS).replace(' ', '[ _]')})(?![a-z])", re.IGNORECASE)
# Who has names with the word "place": those that know versions of documents by their places, or letters by theirs.
PLACES = (
    "stream/neardup/pairs/window_message.py", "stream/neardup/deduplicator.py",
    "stream/neardup/stories/sources/", "stream/neardup/stories/verdicts/",
    "workers/neardup_workers/doing/audit/", "workers/neardup_workers/running/commands/batch/",
    "workers/neardup_workers/running/commands/dead.py", "workers/neardup_workers/doing/http/",
    "workers/neardup_workers/outside/options/running.py", "workers/neardup_workers/outside/outputs/",
    "workers/neardup_workers/doing/stages/", "workers/neardup_workers/outside/store/",
    "workers/neardup_workers/outside/topics/",
)  # fmt: skip
PLACE = re.compile(r"((^|_)(place|PLACE)|Place)([sS]?)(_|$)")
PROSE_FOLDERS = (*FOLDERS, "deploy", ".ci", ".github")
PROSE_NAMES = {"Dockerfile", "Makefile", "run"}  # files of prose without an ending
PROSE_ENDINGS = {".json", ".md", ".properties", ".py", ".sh", ".toml", ".yaml", ".yml"}


def plain_files() -> list[Path]:
    found = [*ROOT.iterdir(), *(path for folder in PROSE_FOLDERS for path in (ROOT / folder).rglob("*"))]
    prose = (path for path in found if path.suffix in PROSE_ENDINGS or path.name in PROSE_NAMES)
    return sorted(path for path in prose if path.is_file() and path != Path(__file__))


def test_no_private_word_returns() -> None:
    """Readers come from all countries: a word has its common meaning."""
    wrong = [
        f"{named(path)}:{text_of(path).count(chr(10), 0, found.start()) + 1}: {found[1]!r}; write: "
        + PRIVATE_WORDS[found[1].lower().replace("_", " ")]
        for path in plain_files()
        for found in PRIVATE_WORD.finditer(text_of(path))
    ]
    assert not wrong, "\n".join(wrong)


def test_a_place_is_the_name_of_a_version() -> None:
    """An entry of an array has an index or a position, a hash table has slots, a page of heads has a size."""
    wrong = {
        f"{named(path)}: {token.string}"
        for folder in ROOTS
        for path in (ROOT / folder).rglob("*.py")
        if not named(path).startswith(PLACES)
        for token in tokenize.generate_tokens(iter(text_of(path).splitlines(keepends=True)).__next__)
        if token.type == tokenize.NAME and PLACE.search(token.string)
    }
    assert not wrong, "\n".join(sorted(wrong))


def test_only_the_readme_says_how_long_a_first_run_compiles() -> None:
    """Other places link to it: three figures were three promises. Benchmark ``S7-first-run`` measures this one."""
    figure = re.compile(r"\bcompil[^.]{0,100}\b\d+ seconds|\b\d+ seconds[^.]{0,60}\bcompil")
    texts = [ROOT / "README.md", ROOT / "Makefile", ROOT / "tests/browser/demo_page.py"]
    texts += [*(ROOT / "docs").rglob("*.md"), *(ROOT / "docs/examples").glob("*.py")]
    texts += [path for folder in (*ROOTS, "deploy") for path in (ROOT / folder).rglob("*.py")]
    named_in = [named(path) for path in texts if figure.search(" ".join(path.read_text(encoding="utf-8").split()))]
    assert [name for name in named_in if name != "docs/CHANGELOG.md"] == ["README.md"]


def test_each_page_says_first_what_one_may_do_after_it_and_all_are_short() -> None:
    """All pages but the changelog, which grows, have at most 39,500 words: a page states a fact, the others link."""
    pages = [path for path in plain_files() if path.suffix == ".md"]
    without = [named(path) for path in pages if "After this page" not in text_of(path).partition("\n## ")[0]]
    assert without == []
    assert sum(len(text_of(path).split()) for path in pages if path.name != "CHANGELOG.md") <= 39_500


def test_the_glossary_has_at_most_40_words_in_order() -> None:
    """And each of them stands in the code."""
    rows = re.findall(r"^\| (.+?) \| .+ \| (`.+`) \|$", (ROOT / "docs/GLOSSARY.md").read_text(encoding="utf-8"), re.M)
    words = [word for word, _ in rows]
    assert words == sorted(words)
    assert 20 < len(words) <= 40
    code = "\n".join(text_of(path) for folder in ROOTS for path in (ROOT / folder).rglob("*.py"))
    for word, names in rows:
        for name in re.findall(r"`(\w+)`", names):
            assert re.search(rf"\b{name}\b", code), f"{word}: {name} stands nowhere in the code"
