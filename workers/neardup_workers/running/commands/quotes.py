"""``neardup quotes``: the quotes that texts share, as a table, as JSON, and as a page with the texts side by side.

Each file is a text. The page holds all that it needs: the texts with marks, and a picture in which each quote is a
line, at its position in both texts.
"""

from __future__ import annotations

import html
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

import orjson
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from neardup.errors import ConfigError
from neardup.pairs.quotes import Quote, quotes
from neardup_workers.outside.options.judging import QuotesOptions
from neardup_workers.outside.outputs.output import check_outputs
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.process.printable import printable
from neardup_workers.outside.readers.objects import text_of
from neardup_workers.outside.settings.files import Settings

_COLUMNS, _SHOWN = 120, 160
_CUT = " […] "
# Width and height of a picture, in pixels.
_PICTURE = 480
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Quotes</title><style>
body{font:15px/1.5 Georgia,serif;margin:1rem}h2{font-size:1rem;margin:1rem 0}
.texts{display:grid;grid-template-columns:1fr 1fr;gap:1rem}
.text{height:75vh;overflow:auto;white-space:pre-wrap;overflow-wrap:anywhere;border:1px solid #999;padding:.6rem}
a{background:#ffe9a8;color:inherit;text-decoration:none}a:target{background:#f7b733}
svg{border:1px solid #999;background:#fff}svg line{stroke:#b03a2e;stroke-width:3;stroke-linecap:round}
@media(prefers-color-scheme:dark){body{background:#1b1b1b;color:#ddd}a{background:#5c4a12}a:target{background:#96731a}}
</style>"""


def run(options: QuotesOptions, settings: Settings) -> None:
    """Print the quotes. Raises ``Failure`` for fewer than two texts, and for files that cannot be used."""
    if len(options.paths) < 2:
        raise Failure(Exit.USAGE, "quotes compares texts: name two files or more, the older one first")
    check_outputs(options.paths, {"page": options.page}, prints=True)
    texts = [text_of(path, settings.line_bytes_max) for path in options.paths]
    try:
        found = quotes(texts, settings, options.paths)
    except ConfigError as error:
        raise Failure(Exit.UNUSABLE, str(error)) from None
    if options.page is not None:
        try:
            Path(options.page).write_text("".join(page(options.paths, texts, found)), encoding="utf-8")
        except OSError as error:
            raise Failure(Exit.OUTPUT, f"cannot write {options.page}: {error.strerror}") from None
    if options.as_json:
        for quote in found:
            typer.echo(orjson.dumps(_values(quote, options.paths, texts)).decode())
        return
    console = Console(highlight=False, width=None if sys.stdout.isatty() else _COLUMNS)
    for (older, newer), of_pair in groupby(sorted(found, key=lambda one: one[1::-1]), lambda one: one[:2]):
        console.print(_table(options.paths[older], options.paths[newer], texts[older], texts[newer], list(of_pair)))
    if not found:
        typer.echo("no quotes")


def page(names: Sequence[str], texts: Sequence[str], found: Sequence[Quote]) -> Iterator[str]:
    """Yield a page of HTML: for each two texts with quotes a picture, and the texts side by side."""
    yield _PAGE
    if not found:
        yield "<p>The texts share no quotes."
    for pair, ((older, newer), group) in enumerate(
        groupby(sorted(found, key=lambda one: one[1::-1]), lambda one: one[:2])
    ):
        of_pair = list(group)
        yield f"<h2>{html.escape(names[older])} in {html.escape(names[newer])} (quotes: {len(of_pair)})</h2>"
        yield from _picture(of_pair, len(texts[older]), len(texts[newer]), pair)
        yield '<div class="texts">'
        for side, text in (("o", texts[older]), ("n", texts[newer])):
            other = "n" if side == "o" else "o"
            spans = sorted((*(one.older_span if side == "o" else one.newer_span), n) for n, one in enumerate(of_pair))
            yield '<div class="text">'
            yield from _marked(text, spans, f"{side}{pair}-", f"{other}{pair}-")
            yield "</div>"
        yield "</div>"


def _values(quote: Quote, names: Sequence[str], texts: Sequence[str]) -> dict[str, object]:
    """A quote as values of JSON."""
    sides = {
        side: {"text": texts[number][slice(*span)], "given": span}
        for side, number, span in (("older", quote.older, quote.older_span), ("newer", quote.newer, quote.newer_span))
    }
    score, depth, phrase = quote.score, quote.depth, quote.is_phrase
    return {"older": names[quote.older], "newer": names[quote.newer], "score": score, "depth": depth,
            "phrase": phrase, "quote": sides}  # fmt: skip


def _table(older: str, newer: str, text: str, other: str, found: Sequence[Quote]) -> Table:
    table = Table(title=f"quotes: {len(found)}", expand=True)
    for name in ("score", "depth"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in (older, newer):
        table.add_column(Text(printable(name)), ratio=1, overflow="fold")
    for one in found:
        cells = [f"{one.score:g}", f"{one.depth} phrase" if one.is_phrase else str(one.depth)]
        sides = [_clipped(text, one.older_span), _clipped(other, one.newer_span)]
        table.add_row(*cells, *map(Text, sides))
    return table


def _clipped(text: str, span: tuple[int, int]) -> str:
    """A quote with its position, without the middle of a long one."""
    shown = " ".join(text[slice(*span)].split())
    if len(shown) > _SHOWN + len(_CUT):
        shown = shown[: _SHOWN // 2] + _CUT + shown[-_SHOWN // 2 :]
    return f"{span[0]:,}: {printable(shown)}"


def _marked(text: str, spans: list[tuple[int, int, int]], own: str, other: str) -> Iterator[str]:
    """Yield a text with its quotes as links to the other side; where quotes overlap, the first has the letters."""
    at = 0
    for begin, end, number in spans:
        begin = max(begin, at)
        yield html.escape(text[at:begin])
        yield f'<a id="{own}{number}" href="#{other}{number}">{html.escape(text[begin : max(begin, end)])}</a>'
        at = max(begin, end)
    yield html.escape(text[at:])


def _picture(found: Sequence[Quote], older: int, newer: int, pair: int) -> Iterator[str]:
    """Yield a picture: the older text to the right, the newer one down."""
    yield f'<svg width="{_PICTURE}" height="{_PICTURE}" role="img" aria-label="Where the quotes stand in both texts">'
    for n, one in enumerate(found):
        (a, b), (c, d) = one.older_span, one.newer_span
        x, y = (_PICTURE / max(size, 1) for size in (older, newer))
        yield (
            f'<a href="#n{pair}-{n}"><line x1="{a * x:.1f}" y1="{c * y:.1f}" x2="{b * x:.1f}" y2="{d * y:.1f}">'
            f"<title>{one.score:g}</title></line></a>"
        )
    yield "</svg>"
