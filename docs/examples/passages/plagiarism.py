"""Plagiarism: an essay, and others that took from it in four ways.

The essay is made of stories of wire.jsonl. One thief takes it whole, one puts its sentences in another order, one takes
half and adds stories of his own, one takes two sentences into a longer text. Similarity of whole texts finds the first
two: the same sentences in another order have nearly the same shingles. It does not find halves. Passages find what is
copied, say how much of each text it is, and where; so short a passage as a sentence takes the preset for excerpts.

Usage: python docs/examples/passages/plagiarism.py

Source: Mining of Massive Datasets, 3.1.2.
"""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import cast

from neardup import Config, Document, Signer
from neardup.schemes.interface import Evidence
from neardup.schemes.kinds import passages
from neardup.schemes.rows import SCHEMES

WIRE = Path(__file__).parents[1] / "wire.jsonl"
# Whole texts are compared by their shingles, parts by passages of 60 characters: sentences are short.
WHOLE = Config(scheme="prefix")
PARTS = Config(scheme="passages:gram=20,characters=60")


def essays() -> dict[str, str]:
    """The original, then those that took from it, and one that did not."""
    lines = map(json.loads, WIRE.read_text(encoding="utf-8").splitlines())
    stories = {line["id"]: line["text"] for line in lines if line["lang"] == "en"}
    first = {id_.split("/")[1]: text for id_, text in reversed(stories.items())}  # one source of each story
    names = sorted(first, key=lambda name: (-len(first[name]), name))
    own, others = [first[name] for name in names[::2]], [first[name] for name in names[1::2]]
    sentences = re.findall(r"[^.]+\.\s*", " ".join(own))
    moved = random.Random(1).sample(sentences, len(sentences))
    half = len(own) // 2
    return {
        "original": " ".join(own),
        "all of it": " ".join(own),
        "sentences in another order": " ".join(sentence.strip() for sentence in moved),
        "half of it": " ".join([*own[:half], *others[: len(own) - half]]),
        "two sentences": " ".join([*others, *(sentence.strip() for sentence in sentences[1:3])]),
        "nothing": " ".join(others),
    }


def evidence(config: Config, texts: list[str]) -> Evidence:
    """What is compared of some texts."""
    return Signer(config).sign([Document(str(n), text) for n, text in enumerate(texts)]).batch.evidence


def main() -> None:
    """Print for each essay how alike the whole texts are, and which part of each stands in the other."""
    found = essays()
    names = list(found)[1:]
    pairs = [[found["original"]] * len(names), [found[name] for name in names]]
    sides = {config.scheme: [evidence(config, side) for side in pairs] for config in (WHOLE, PARTS)}
    one, other = sides[WHOLE.scheme]
    whole = SCHEMES[WHOLE.scheme].common(one, other, WHOLE.plan).similarity
    one, other = sides[PARTS.scheme]
    shared = passages.shared(one, other, cast(passages.PassagePlan, PARTS.plan))
    print("taken                         whole texts   of the original   of the essay   passages")
    for n, name in enumerate(names):
        of_original, of_essay = shared.fractions[n]
        count = shared.starts[n + 1] - shared.starts[n]
        print(f"{name:<30}{whole[n]:>11.2f}{of_original:>18.2f}{of_essay:>15.2f}{count:>11}")


if __name__ == "__main__":
    main()
