"""The switch of the machine code: the same results with every choice and on every processor, and kernels kept apart."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from neardup.machine import choice
from neardup_workers.outside.settings import load

ROOT = Path(__file__).resolve().parents[3]
# Keys, evidence and pairs of texts of all widths, of vectors and of lines of JSON with escapes, as one hash.
PROGRAM = """
import hashlib, json
import numpy as np
from neardup import Config, Deduplicator, Document, Signer
from neardup.pairs.json_lines import Fields
from neardup_workers.outside.readers.json.columns import decode_columns

texts = ["The quick  brown fox isn't lazy", "Größer, älter: naïve Straßen", "Съешь ещё этих булок", "😀漢字 a"]
texts = [f"{text} " * n + more for text in texts for n in (1, 9) for more in ("", "and so on")]
rows = [json.dumps({"id": str(i), "text": text + '"\\\\'}).encode() for i, text in enumerate(texts)]
found = [decode_columns(rows, [None] * len(rows), Fields()).documents[i] for i in range(len(rows))]
vectors = np.random.default_rng(1).normal(size=(20, 37)).round(3)
vectors[1::2] = vectors[::2] * 1.01
streams = {
    "words": (Config(threshold=0.5, shingles="words", k=1), [Document(str(i), text) for i, text in enumerate(texts)]),
    "chars": (Config(threshold=0.5), [Document(one.id, one.text) for one in found]),
    "planes": (
        Config(scheme="hyperplane:dimension=37", threshold=0.9),
        [Document(str(i), vector=vector.tolist()) for i, vector in enumerate(vectors)],
    ),
}
digest = hashlib.blake2b(repr(found).encode())
count = 0
for config, documents in streams.values():
    batch = Signer(config).sign(documents).batch
    digest.update(b"".join(np.ascontiguousarray(part).tobytes() for part in batch))
    pairs = Deduplicator(config).process(documents)
    digest.update(repr(pairs).encode())
    count += bool(pairs)
print(count, digest.hexdigest())
"""
CHOICES = {"instructions": {}, "models": {choice.VARIABLE: choice.ALL}, "generic": {"NUMBA_CPU_NAME": "generic"}}
CHOICES["image"] = {"NUMBA_CPU_NAME": "x86-64-v3"}


@pytest.mark.long
@pytest.mark.processes
def test_the_library_gives_equal_results_with_every_choice() -> None:
    """With instructions and with models, on this processor and on others: same keys, evidence, texts and pairs."""
    started = {}
    for name, variables in CHOICES.items():
        features = {"NUMBA_CPU_FEATURES": ""} if "NUMBA_CPU_NAME" in variables else {}
        started[name] = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | variables | features,
            cwd=ROOT,
        )
    printed = {name: process.communicate()[0] for name, process in started.items()}
    assert [process.returncode for process in started.values()] == [0] * len(CHOICES)
    assert set(printed.values()) == {printed["instructions"]}
    assert printed["instructions"].startswith("3 ")


def test_a_name_of_no_primitive_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the names that there are; without the switch nothing is refused."""
    choice.refuse_unknown(["word_at"])
    monkeypatch.setattr(choice, "MODELS", ("word_at", "wurd_at"))
    with pytest.raises(ImportError, match=r"is 'wurd_at', which names no primitive; give some of word_at, models"):
        choice.refuse_unknown(["word_at"])
    assert choice.runs_as_model("word_at")
    assert not choice.runs_as_model("word_from")


def test_programs_do_not_take_the_switch_for_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any other unknown name with their prefix is refused."""
    monkeypatch.setenv(choice.VARIABLE, choice.ALL)
    assert load.load({}).threshold > 0
