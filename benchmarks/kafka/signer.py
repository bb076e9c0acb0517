"""K1: a signer and a bare loop on the same topic, of ASCII and of Arabic. K4: two signers in two processes and one."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import orjson
from kafka import KafkaConsumer, TopicPartition

from benchmarks.kafka.deploy import (
    Bench,
    Process,
    Turn,
    arabic_values,
    deployment,
    drained,
    load,
    wait_until,
    with_group,
)
from benchmarks.measure import processor_seconds
from benchmarks.report import Result, Size, Target
from neardup_workers.outside.settings.kafka import LIMITS, StreamSettings
from neardup_workers.outside.topics.names import names_of
from neardup_workers.outside.transport.kafka.connect import kafka_settings
from neardup_workers.running.service.roles import ROLES

SEED = 41
BARE_ID, TWO_ID = "K1-signer", "K4-two-signers"
RATIO_MIN, ARABIC_RATIO_MIN, SCALING_MIN = 0.6, 0.5, 1.6
_DOCUMENTS: dict[Size, int] = {"smoke": 400, "default": 60_000, "large": 200_000}
_REPEATS: dict[Size, int] = {"smoke": 1, "default": 3, "large": 5}
# The topic has more than is measured: for the last steps of a topic, a signer waits a commit interval in case more
# documents come, and a bare loop does not.
_LOADED = 1.25


def run(bench: Bench) -> Iterator[Result]:
    """Run K1 on a topic of each script, and K4."""
    count = _DOCUMENTS[bench.size]
    settings = deployment(bench, "sign")
    loaded = round(_LOADED * count)
    size = load(settings, loaded, SEED)
    yield _compared_with_bare(settings, bench, count, size / loaded, "ASCII", RATIO_MIN)
    arabic = deployment(bench, "sign-arabic")
    size = load(arabic, loaded, SEED, arabic_values)
    yield _compared_with_bare(arabic, bench, count, size / loaded, "Arabic", ARABIC_RATIO_MIN)
    yield _two(settings, bench, count)


def bare(settings: StreamSettings, count: int) -> tuple[float, float]:
    """Poll every partition and parse each value until ``count`` are parsed, with the consumer's options of the signer:
    wall and own seconds.
    """
    topic = names_of(settings).topics.documents
    client = KafkaConsumer(**kafka_settings(settings).consumer_options(), group_id=None)
    places = [TopicPartition(topic, partition) for partition in range(settings.documents_partitions)]
    client.assign(places)
    client.seek_to_beginning(*places)
    started, own = time.perf_counter(), time.process_time()
    found = 0
    while found < count:
        for records in client.poll(timeout_ms=200, max_records=LIMITS.step_documents_max).values():
            for record in records:
                orjson.loads(record.value)
            found += len(records)
    seconds = (time.perf_counter() - started) * count / found, (time.process_time() - own) * count / found
    client.close(autocommit=False)
    return seconds


def _compared_with_bare(
    settings: StreamSettings, bench: Bench, count: int, document_bytes: float, script: str, ratio_min: float
) -> Result:
    ROLES["sign"].warm(settings)
    times: dict[str, list[tuple[float, float]]] = {"bare": [], "signer": []}
    stages: dict[str, float] = {}
    for turn in range(_REPEATS[bench.size]):
        times["bare"].append(bare(settings, count))
        wall, own, tally = drained("sign", with_group(settings, f"one{turn}"), settings.documents_partitions, count)
        times["signer"].append((wall, own))
        stages = {name: seconds * count / tally.sums["documents"] for name, seconds in tally.stages().items()}
    best = {name: (min(wall for wall, _ in each), min(own for _, own in each)) for name, each in times.items()}
    details: dict[str, object] = {"documents": count, "bytes a document": round(document_bytes)}
    for name, (wall, own) in best.items():
        details |= {f"{name} documents/s": round(count / wall), f"{name} own us/document": 1e6 * own / count}
    details |= {f"{name} us/document": 1e6 * seconds / count for name, seconds in stages.items()}
    details["share by own processor time"] = best["bare"][1] / best["signer"][1]
    ratio = best["bare"][0] / best["signer"][0]
    target = Target("at least", ratio_min) if bench.size != "smoke" else None
    return Result(BARE_ID, f"throughput of a signer over a bare loop's, {script}", ratio, "times", target, details)


def _two(settings: StreamSettings, bench: Bench, count: int) -> Result:
    rates: dict[int, float] = {1: 0.0, 2: 0.0}
    details: dict[str, object] = {}
    # The greatest rate of each: other load of the machine can only slow a run down.
    for turn in range(1 if bench.size == "smoke" else 2):
        for number in rates:
            rate, split = _drain(with_group(settings, f"of{number}-{turn}"), bench, count, number)
            if rate > rates[number]:
                rates[number] = rate
                details |= {f"{number}: {name}": amount for name, amount in split.items()}
    details = {"one documents/s": round(rates[1]), "two documents/s": round(rates[2]), **details}
    scaling = rates[2] / rates[1]
    target = Target("at least", SCALING_MIN) if bench.size != "smoke" else None
    return Result(TWO_ID, "throughput of two signers over one's", scaling, "times", target, details)


def _drain(settings: StreamSettings, bench: Bench, count: int, number: int) -> tuple[float, dict[str, float]]:
    """Documents a second while all signers had work, and the processor seconds of all processes for each second."""
    own = [with_group(settings, settings.group, str(i)) for i in range(number)]
    each_owns = str(settings.documents_partitions // number)
    with ExitStack() as held:
        signers = [held.enter_context(Process("sign", each, each_owns)) for each in own]
        wait_until(lambda: all(signer.ready.is_set() for signer in signers), "ready", signers)
        for each in signers:
            each.start()
        broker: list[tuple[float, float]] = []

        def done() -> bool:
            broker.append((time.monotonic(), processor_seconds(bench.broker_pid)))
            return sum(each.documents for each in signers) >= count

        wait_until(done, "all documents are signed", signers)
        for each in signers:
            each.stop()
        return _rates([each.turns for each in signers], broker)


def _rates(turns: Sequence[Sequence[Turn]], broker: Sequence[tuple[float, float]]) -> tuple[float, dict[str, float]]:
    """Of the time between the last to begin and the last turn of the first to end."""
    if not all(len(each) > 1 for each in turns):
        return 1.0, {"turns": sum(map(len, turns))}
    begin, end = max(each[0].at for each in turns), min(each[-1].at for each in turns)
    if end <= begin:
        return 1.0, {"overlap s": end - begin}
    documents, split = 0.0, {"seconds": end - begin}
    for i, each in enumerate(turns):
        within = [turn for turn in each if begin <= turn.at <= end]
        span = within[-1].at - within[0].at
        documents += (within[-1].documents - within[0].documents) / max(span, 1e-9)
        split[f"signer {i} cores"] = (within[-1].processor - within[0].processor) / max(span, 1e-9)
    seen = [(at, used) for at, used in broker if begin <= at <= end]
    if len(seen) > 1:
        split["broker cores"] = (seen[-1][1] - seen[0][1]) / (seen[-1][0] - seen[0][0])
    return documents, split
