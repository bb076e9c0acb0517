"""The site: these pages, the reference of the API and a search, with every link checked (``make site``).

The files that pages link to go with them, each where it stands in the repository, so a link leads to the same thing
here, in an editor and on the site.

    python docs/make_site.py FOLDER
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pdoc
from mkdocs.commands.build import build
from mkdocs.config import load_config
from pymdownx.slugs import slugify

ROOT = Path(__file__).resolve().parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
_LINK = re.compile(r"\]\(([^)\s#]+)[^)\s]*\)")
# What a reader meets first; the other pages follow in the order of their names.
_FIRST = [
    "README.md",
    "docs/TUTORIAL.md",
    "docs/COOKBOOK.md",
    "docs/PLUGS.md",
    "docs/OPERATIONS.md",
    "docs/GUARANTEES.md",
]
_EXTENSIONS = [
    "tables", "pymdownx.highlight", "pymdownx.superfences",
    {"toc": {"slugify": slugify(case="lower"), "permalink": True}},  # anchors as those of the repository's pages
]  # fmt: skip


def make(site: Path) -> list[str]:
    """Write the site into a folder; return the links of it that lead nowhere."""
    logging.getLogger("mkdocs").setLevel(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        _gather(Path(folder))
        pdoc.render.configure(docformat="google", show_source=False)
        # The second module has the settings of ``Config``.
        pdoc.pdoc("neardup", "neardup.schemes.declared", output_directory=Path(folder) / "api")
        names = [str(path.relative_to(ROOT)) for path in PAGES]
        config = load_config(
            os.devnull, config_file_path=str(ROOT / "mkdocs.yml"), site_name="neardup", docs_dir=folder,
            site_dir=str(site), exclude_docs="!.github", use_directory_urls=False, plugins=["search"],
            nav=[*_FIRST, {"API": "api/neardup.html"}, *(name for name in names if name not in _FIRST)],
            theme={"name": "material", "font": False, "features": ["content.code.copy", "navigation.instant"]},
            markdown_extensions=_EXTENSIONS,
        )  # fmt: skip
        build(config)
    return broken(site)


def _gather(folder: Path) -> None:
    """Copy the pages and the files that they link to."""
    linked = (page.parent / name for page in PAGES for name in _LINK.findall(page.read_text(encoding="utf-8")))
    for path in {*PAGES, *(Path(os.path.normpath(path)) for path in linked if path.is_file())}:
        to = folder / path.relative_to(ROOT)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, to)


class _Page(HTMLParser):
    """The addresses that a page leads to, and the names that others may lead to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses, self.names = set[str](), set[str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what an element names and where it leads."""
        for name, value in attrs:
            if value is not None and name in ("href", "src"):
                self.addresses.add(value)
            elif value is not None and name in ("id", "name"):
                self.names.add(value)


def broken(site: Path) -> list[str]:
    """Return the links within a site whose file or anchor does not exist."""
    pages = {path: _Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        for address in sorted(page.addresses):
            parts = urlsplit(address)
            if parts.scheme or parts.netloc or address == ".":
                continue
            to = Path(os.path.normpath(path.parent / unquote(parts.path))) if parts.path else path
            is_there = to.is_file() and (not parts.fragment or to not in pages or parts.fragment in pages[to].names)
            if not is_there and path.name != "404.html":  # which stands at any address
                found.append(f"{path.relative_to(site)}: {address}")
    return found


if __name__ == "__main__":
    nowhere = make(Path(sys.argv[1]).resolve())
    sys.exit("\n".join(["links that lead nowhere:", *nowhere]) if nowhere else None)
