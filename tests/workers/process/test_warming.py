"""What a service or a worker loads before its first document is all that it ever calls."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from command import PROCESS_SECONDS_MAX

LOADED = """
import json, sys
from contextlib import suppress
from neardup.machine.stored import StoredKernel
loaded = []
load = StoredKernel.load_overload
def noted(self, signature, target):
    loaded.append(f"{self._kernel.__module__}.{self._kernel.__qualname__}")
    return load(self, signature, target)
StoredKernel.load_overload = noted
TEXTS = [
    "plain ASCII text of some length", "größer und länger, Straße", "погода на севере", "東京の天気は今日も雨です",
    "\U0001f600 is wide", "a surrogate \\ud800 alone", "", " ", "e\\u0301\\u0323 marks \\u0315\\u0300", "نص بالعربية",
    "한국어", "\\u1100\\u1161 jamo \\ufdfa", "น้ำ", "x" * 5000, "Å" * 9000, "語" * 9000, "e\\u0301" * 9000,
]
"""
SERVICE = """
from pathlib import Path
from neardup import Config
from neardup.schemes.rows import SCHEMES
from neardup_workers.outside.process.warming import warm
from neardup_workers.outside.settings.serve import ServeSettings
from neardup_workers.outside.store.keeper import Keeper
from neardup_workers.outside.store.log import Log
settings = ServeSettings(window_documents=50, window_seconds=1000.0, lateness_seconds=10.0, **json.loads(sys.argv[2]))
config = Config(**{name: getattr(settings, name) for name in Config.model_fields})
warm(config)
fingerprints = {"signing": settings.signing_fingerprint, "matching": settings.matching_fingerprint}
log = Log(Path(sys.argv[1]), fingerprints, settings.durability)
keeper = Keeper(settings, log, keep_texts=True)
before = len(loaded)
sample = SCHEMES[config.scheme].sample
def document(number, text, time):
    one = sample(text or "x", config.plan)._replace(id=str(number), timestamp=time)
    return one._replace(text=text) if config.plan.kind == "text" else one
for number, text in enumerate(TEXTS):
    if config.plan.kind != "text" and not text.isascii():
        continue
    for time in (0.0, 100.0, 1500.0, 400.0):  # new, repeated, in a later window, late
        keeper.check([document(number, text, time)])
        keeper.check([document(f"copy {number}", text, time)])
many = [document(100 + n, f"{TEXTS[0]} {n % 7}", 1600.0 + n) for n in range(200)]
keeper.check([*many, many[0]._replace(id="\\ud800")])
keeper.probe(many[:3], 3)
keeper.near("250")
keeper.why("250", "299")
keeper.why(many[0], "299")
keeper.remove("290")
with suppress(OSError), keeper._step():
    keeper.matcher.match(keeper.signer.sign(many[:2]).batch)
    raise OSError
log.close()
log = Log(Path(sys.argv[1]) / "arrival", fingerprints, settings.durability)
keeper = Keeper(settings, log, clock=lambda: 2000.0)
keeper.check(many)
keeper.probe(many[:3], 3)
keeper.near("250")
keeper.why(many[0], "299")
keeper.remove("290")
log.close()
print(json.dumps([before > 0, loaded[before:]]))
"""
SIGNER = """
from neardup.pairs.json_lines import Fields
from neardup.pairs.signing import Signer
from neardup_workers.outside.readers.json.columns import decode_columns
from neardup_workers.running.service.roles import ROLES, SIGN
from neardup_workers.outside.settings.kafka import StreamSettings
settings = StreamSettings()
ROLES[SIGN].warm(settings)
before = len(loaded)
for escaped in (True, False):
    lines = [json.dumps({"id": "a", "text": text}, ensure_ascii=escaped).encode(errors="replace") for text in TEXTS]
    for part in [lines, *([line] for line in lines)]:
        if (found := decode_columns(part, [None] * len(part), Fields())) is not None:
            Signer(settings).sign(found.documents)
print(json.dumps([before > 0, loaded[before:]]))
"""


def loaded_later(code: str, *arguments: str) -> str:
    command = [sys.executable, "-c", LOADED + code, *arguments]
    done = subprocess.run(command, capture_output=True, timeout=PROCESS_SECONDS_MAX, check=False)
    return (done.stdout or done.stderr).decode()


@pytest.mark.processes
@pytest.mark.parametrize(
    "settings",
    [
        "{}",
        '{"verify": "exact", "shingles": "words"}',
        '{"scheme": "records"}',
        '{"scheme": "bit_sampling:dimension=64"}',
    ],
    ids=["sketch", "exact", "records", "vectors"],
)
def test_a_service_loads_no_kernel_after_its_start(tmp_path: Path, settings: str) -> None:
    """Whatever its documents contain, and whether their times are their own or those of their arrival, no request waits
    for the compiler."""
    assert loaded_later(SERVICE, str(tmp_path / "state"), settings) == "[true, []]\n"


@pytest.mark.processes
def test_a_signer_loads_no_kernel_after_its_start() -> None:
    """Texts come as UTF-8 and as escapes, alone and together."""
    assert loaded_later(SIGNER) == "[true, []]\n"
