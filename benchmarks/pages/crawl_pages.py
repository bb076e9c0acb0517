"""Generated crawls: real texts in the templates of ten sites, with mirrors, print versions and session ids.

A text becomes a group of pages that are copies of each other: the page of one site; the same page on a mirror; the same
page with other session ids in its links, another time and other related stories; its print version; and the story as
another site prints it, in its own template and with one word in a hundred changed. Pages of a site share a menu, the
most read stories, an imprint and scripts: 45 kB of markup for 1 to 3 kB of text, less than pages of newspapers have.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SITES = 10
SEED = 14
# Pages of a group: how likely each size is.
_GROUP_SIZES = {1: 25, 2: 25, 3: 22, 4: 14, 5: 14}
_VERSIONS = ("mirror", "session", "print", "other")
# Characters of a text that is cut out of a longer one, and of the texts that are left out.
_TEXT_CHARACTERS, _TEXT_CHARACTERS_MIN = 1500, 600
_SENTENCE = re.compile(r"(?<=[.!?]) +(?=[A-Z“\"])")
# One word of how many is changed where another site prints a story.
_WORDS_PER_EDIT = 100
# What holds the text of a page: the element, its attributes, and the tag of a paragraph.
_FRAMES = (
    ("article", "", "p"), ("div", 'class="entry-content"', "p"), ("main", 'id="main"', "p"),
    ("div", 'class="article-body"', "p"), ("section", 'class="story-body"', "p"), ("div", 'id="content"', "p"),
    ("article", 'itemprop="articleBody"', "p"), ("div", 'class="post-content"', "p"),
    ("div", 'class="text" role="main"', "p"), ("article", 'class="post"', "p"),
)  # fmt: skip


class CrawlPage(NamedTuple):
    """A page; ``group`` is the number of its text."""

    uri: str
    markup: bytes
    group: int


class Site(NamedTuple):
    """The parts that all pages of a site have."""

    host: str
    frame: tuple[str, str, str]
    menu: tuple[str, ...]
    most_read: tuple[str, ...]
    imprint: str
    script: str


def texts(data: Path) -> list[str]:
    """Distinct real texts: 2,500 articles of news, and parts of addresses, which have no near-duplicates."""
    news = data / "mccormick_minhash"
    copies = {line.split()[1] for line in (news / "articles_2500.truth").read_text().splitlines() if line.strip()}
    lines = (news / "docs_2500.jsonl").read_text(encoding="utf-8").split("\n")
    articles = [json.loads(line) for line in lines if line]
    found = [one["text"] for one in articles if one["id"] not in copies and len(one["text"]) >= _TEXT_CHARACTERS_MIN]
    for path in sorted((data / "sotu").glob("*.txt")):
        found += _parts(path.read_text(encoding="utf-8"))
    return found


def _parts(text: str) -> Iterator[str]:
    """Cut a text at ends of sentences."""
    part: list[str] = []
    for sentence in _SENTENCE.split(" ".join(text.split())):
        part.append(sentence)
        if sum(map(len, part)) >= _TEXT_CHARACTERS:
            yield " ".join(part)
            part = []


def crawl(data: Path, pages: int, seed: int = SEED) -> list[CrawlPage]:
    """Make a crawl of so many pages, in random order."""
    rng = random.Random(seed)
    pool = texts(data)
    rng.shuffle(pool)
    lines, pool = [_headline(text) for text in pool[:300]], pool[300:]
    sites = [_site(rng, i, lines) for i in range(SITES)]
    made: list[CrawlPage] = []
    for group, text in enumerate(pool):
        if len(made) >= pages:
            break
        (size,) = rng.choices(list(_GROUP_SIZES), list(_GROUP_SIZES.values()))
        made += _group(rng, group, text, sites, lines, size)
    assert len(made) >= pages, f"the texts suffice for {len(made)} pages"
    made = made[:pages]
    rng.shuffle(made)
    return made


def _group(
    rng: random.Random, group: int, text: str, sites: list[Site], lines: list[str], size: int
) -> Iterator[CrawlPage]:
    site, other = rng.sample(sites, 2)
    related, session = rng.sample(lines, 8), f"{rng.getrandbits(64):x}"
    first = _page(site, text, related, session, "Monday 08:15")
    yield CrawlPage(f"http://{site.host}/story/{group}?sid={session}", first, group)
    for version in rng.sample(_VERSIONS, size - 1):
        if version == "mirror":
            host = f"mirror{rng.randrange(99)}.example"
            yield CrawlPage(
                f"http://{host}/{site.host}/{group}", first.replace(site.host.encode(), host.encode()), group
            )
        elif version == "session":
            session = f"{rng.getrandbits(64):x}"
            markup = _page(site, text, rng.sample(lines, 8), session, f"Tuesday {rng.randrange(24):02}:47")
            yield CrawlPage(f"http://{site.host}/story/{group}?sid={session}", markup, group)
        elif version == "print":
            yield CrawlPage(f"http://{site.host}/print/{group}", _print(site, text, group), group)
        else:
            markup = _page(other, _edited(rng, text), rng.sample(lines, 8), session, "Wednesday 17:02")
            yield CrawlPage(f"http://{other.host}/wire/{group}?sid={session}", markup, group)


def _site(rng: random.Random, number: int, lines: list[str]) -> Site:
    return Site(
        f"site{number}.example", _FRAMES[number % len(_FRAMES)], tuple(_words(rng, lines, 2) for _ in range(60)),
        tuple(rng.sample(lines, 10)), " ".join(_words(rng, lines, 9) for _ in range(20)),
        "".join(f'push({{id:"{rng.getrandbits(64):x}",name:"{line}"}});\n' for line in lines[:150]),
    )  # fmt: skip


def _words(rng: random.Random, lines: list[str], count: int) -> str:
    return " ".join(rng.choice(lines).split()[:count])


def _headline(text: str) -> str:
    return " ".join(text.split()[:9]).rstrip(".,;")


def _edited(rng: random.Random, text: str) -> str:
    """Change one word of a hundred, at least one."""
    words = text.split(" ")
    for at in rng.sample(range(len(words)), max(1, len(words) // _WORDS_PER_EDIT)):
        words[at] = rng.choice(words)
    return " ".join(words)


def _paragraphs(text: str, tag: str) -> str:
    sentences = _SENTENCE.split(text)
    return "".join(f"<{tag}>{' '.join(sentences[i : i + 3])}</{tag}>\n" for i in range(0, len(sentences), 3))


def _page(site: Site, text: str, related: list[str], session: str, time: str) -> bytes:
    element, attributes, tag = site.frame
    title = _headline(text)

    def items(lines: tuple[str, ...] | list[str], place: str) -> str:
        return "".join(
            f'<li class="item item-{place} item-{i}"><div class="item-inner"><a class="link" data-track="{place}:{i}" '
            f'href="http://{site.host}/{place}/{i}?sid={session}"><svg class="icon" viewBox="0 0 24 24">'
            f'<path d="M0 0h24v24H0z"/></svg><span class="label">{line}</span></a></div></li>\n'
            for i, line in enumerate(lines)
        )

    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{title} - {site.host}</title>\n'
        f"<script>{site.script}</script><style>.menu{{float:left}}.side{{float:right;width:300px}}</style></head>\n"
        f'<body><header><div class="logo">{site.host}</div><nav class="menu"><ul>{items(site.menu, "menu")}</ul></nav>'
        f'</header>\n<{element} {attributes}><h1>{title}</h1><div class="byline">Updated {time}</div>\n'
        f"{_paragraphs(text, tag)}</{element}>\n"
        f'<aside class="side"><h3>Most read</h3><ul>{items(site.most_read, "top")}</ul>'
        f"<h3>Related</h3><ul>{items(related, 'related')}</ul></aside>\n"
        f'<footer><div class="imprint">{site.imprint}</div></footer></body></html>\n'
    ).encode()


def _print(site: Site, text: str, group: int) -> bytes:
    title = _headline(text)
    return (
        f'<html><head><meta charset="utf-8"><title>{title}</title></head><body><h1>{title}</h1>\n'
        f"{_paragraphs(text, 'p')}<hr><small>Printed from http://{site.host}/story/{group}</small></body></html>\n"
    ).encode()
