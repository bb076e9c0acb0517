"""Plain English: words that have no place in any file, and the glossary."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("stream", "workers", "benchmarks", "docs", "tests")


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


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
PROSE_FOLDERS = (*FOLDERS, "deploy", ".ci", ".github")
PROSE_NAMES = {"Dockerfile", "Makefile", "run"}  # files of prose without an ending
PROSE_ENDINGS = {".json", ".md", ".properties", ".py", ".sh", ".toml", ".yaml", ".yml"}


def plain_files() -> list[Path]:
    found = [*ROOT.iterdir(), *(path for folder in PROSE_FOLDERS for path in (ROOT / folder).rglob("*"))]
    prose = (path for path in found if path.suffix in PROSE_ENDINGS or path.name in PROSE_NAMES)
    return sorted(path for path in prose if path.is_file() and path != Path(__file__))


@pytest.mark.parametrize("path", plain_files(), ids=named)
def test_no_private_word_returns(path: Path) -> None:
    """Readers come from all countries: a word has its common meaning."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        found = PRIVATE_WORD.search(line)
        assert not found, (
            f"{named(path)}:{number}: {found[1]!r}; write: {PRIVATE_WORDS[found[1].lower().replace('_', ' ')]}"
        )


def test_the_glossary_has_at_most_40_words_in_order() -> None:
    """And each of them stands in the code."""
    rows = re.findall(r"^\| (.+?) \| .+ \| (`.+`) \|$", (ROOT / "docs/GLOSSARY.md").read_text(encoding="utf-8"), re.M)
    words = [word for word, _ in rows]
    assert words == sorted(words)
    assert 20 < len(words) <= 40
    code = "\n".join(
        path.read_text(encoding="utf-8") for folder in ("stream", "workers") for path in (ROOT / folder).rglob("*.py")
    )
    for word, names in rows:
        for name in re.findall(r"`(\w+)`", names):
            assert re.search(rf"\b{name}\b", code), f"{word}: {name} stands nowhere in the code"
