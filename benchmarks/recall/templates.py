"""S20: what a list of templates takes away, and what it leaves.

Programs of several tasks get the header of the Apache licence. Pages
of one host share menus. In both, the list is made by ``neardup passages --templates`` from the corpus itself.
"""

from __future__ import annotations

import json
import random
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import numpy as np

from benchmarks.pages.extraction import articles
from benchmarks.real import DATA
from benchmarks.recall.passages import NO_DATA, SEED, changed, java_programs
from benchmarks.report import Result, Size, Target
from neardup import Config, Deduplicator, Document, Signer
from neardup.features.texts.normalize import normalize
from neardup.pairs.pipeline import Matcher, match_step
from neardup.schemes.kinds.passages import PassageOptions, PassagePlan
from neardup_workers.outside.options.judging import PassagesOptions
from neardup_workers.outside.settings.files import Settings
from neardup_workers.outside.settings.value_files import read_templates
from neardup_workers.outside.web.markup import text_of_markup
from neardup_workers.running.commands.templates import templates

CODE, PAGES = "S20-templates-code", "S20-templates-pages"
_LICENCE = Path(__file__).parents[2] / "LICENSE"
_COMMENTS = re.compile(r"\A(\s*/\*.*?\*/)+\s*", re.DOTALL)
_PAGES: dict[Size, int] = {"smoke": 181, "default": 181, "large": 181}
_HOSTS_SCORE = 0.3


def learned(documents: Sequence[Document], contents_min: int) -> Config:
    """The default settings with the templates that ``contents_min`` of some documents have."""
    with tempfile.TemporaryDirectory() as folder:
        corpus, found = Path(folder, "corpus.jsonl"), Path(folder, "list.jsonl")
        corpus.write_text("".join(json.dumps({"id": x.id, "text": x.text}) + "\n" for x in documents))
        options = PassagesOptions(
            paths=[str(corpus)], templates=True, documents=contents_min, output=str(found), quiet=True
        )
        templates(options, Settings(scheme="passages"))
        return Config(scheme="passages", scheme_options={"templates": read_templates(str(found))})


def code(size: Size) -> Iterator[Result]:
    """Pairs of programs with a header that share no run of a gram besides."""
    del size  # there are 460 of them
    programs = java_programs()
    if not programs:
        yield Result(CODE, "programs", None, "", details=NO_DATA)
        return
    text = _LICENCE.read_text(encoding="utf-8")
    lines = text[text.index("Licensed under the Apache License, Version 2.0") :].strip().splitlines()
    header = "/*\n" + "".join(f" * {line.strip()}\n" for line in lines) + " */\n"
    bare = {id_: _COMMENTS.sub("", program) for id_, program in programs.items()}
    headed = [Document(id_, header + text) for id_, text in bare.items()]
    plain, listed = Config(scheme="passages"), learned(headed, len(headed) // 2)
    for name, config in {"without a list": plain, "with a list": listed}.items():
        pairs = {(pair.older, pair.newer) for pair in Deduplicator(config).process(headed)}
        grams = {id_: _grams(text, config) for id_, text in bare.items()}
        alone = sum(grams[older].isdisjoint(grams[newer]) for older, newer in pairs)
        target = Target("equal to", 0) if config is listed else None
        details = {"programs": len(bare), "pairs": len(pairs)}
        yield Result(CODE, f"{name}: pairs that share the header only", alone, "", target, details)


def _grams(text: str, config: Config) -> set[str]:
    """All runs of a program that have one hash."""
    plan = cast(PassagePlan, config.plan)
    form = normalize(text, plan.normal_form)
    return {form[i : i + plan.gram] for i in range(len(form) - plan.gram + 1)}


def pages(size: Size) -> Iterator[Result]:
    """Pairs of pages of one host, and the recall of whole pages by their article."""
    del size  # a host has two pages, in no order
    if not (DATA / "html_articles").exists():
        yield Result(PAGES, "pages", None, "", details=NO_DATA)
        return
    found = articles(181)
    truth = json.loads((DATA / "html_articles" / "ground-truth.json").read_text(encoding="utf-8"))
    hosts = {id_: urlsplit(one["url"]).hostname for id_, one in truth.items()}
    whole = [Document(one.id, text_of_markup(one.markup)) for one in found]
    plain, listed = Config(scheme="passages"), learned(whole, 2)
    details = {"pages": len(whole), "templates": len(cast(PassageOptions, listed.scheme_options).templates or ())}
    for name, config in {"without a list": plain, "with a list": listed}.items():
        pairs = Deduplicator(config).process(whole)
        own = sum(hosts[pair.older] == hosts[pair.newer] for pair in pairs if pair.similarity >= _HOSTS_SCORE)
        target = Target("equal to", 0) if config is listed else None
        yield Result(PAGES, f"{name}: pairs of pages of one host", own, "", target, details)
    for part in (0.0, 0.02):
        recalls = []
        for config in (plain, listed):
            signer, matcher, rng = Signer(config), Matcher(config), random.Random(SEED)
            match_step(matcher, signer.sign(whole).batch)
            bodies = [Document("article", changed(one.body, part, rng)) for one in found]
            matches = [matcher.match(signer.sign([body]).batch, add=False) for body in bodies]
            recalls.append(float(np.mean([one.id in met.older for one, met in zip(found, matches, strict=True)])))
        what = f"{part:.0%} of the words changed: recall with a list, less that without one"
        about = {"articles": len(found), "without": recalls[0]}
        yield Result(PAGES, what, recalls[1] - recalls[0], "", Target("at least", 0.0), about)


SCENARIOS = {CODE: code, PAGES: pages}
