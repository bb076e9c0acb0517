"""A signal, or a lack of memory, at any line of a step: what comes next goes on from before the step or after it."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from neardup import Config, Deduplicator, Document
from neardup.stories.verdicts import decisions
from neardup.stories.verdicts.decider import Decider
from neardup.window import BandTable

# Where the state is that changes in steps.
STATE = "/neardup/window/", "/neardup/stories/verdicts/", "/neardup/features/tokens/rarity", "/neardup/pairs/pipeline"
Line = tuple[str, int]


class Raised(BaseException):
    """What a handler of signals raises; ``except Exception`` does not catch it."""


def lines_of(call: Callable[[], object], left: int = -1) -> list[Line]:
    """Make a call, and return the lines of the state that it comes to; it is interrupted before number ``left``."""
    met: list[Line] = []

    def line(frame: FrameType, event: str, _: object) -> Any:
        if event == "line":
            if len(met) == left:
                raise Raised
            met.append((frame.f_code.co_filename, frame.f_lineno))
        return line

    def called(frame: FrameType, *_: object) -> Any:
        return line if any(part in frame.f_code.co_filename for part in STATE) else None

    before = sys.gettrace()
    sys.settrace(called)
    try:
        call()
    except Raised:
        pass
    finally:
        sys.settrace(before)
    return met


def stream(rng: random.Random, count: int, first: float, seconds: float) -> list[Document]:
    """Documents of some stories, with copies; their times advance, so that stories end and rows leave the window."""
    bases = [" ".join(f"w{rng.randrange(400)}" for _ in range(12)) for _ in range(9)]
    return [
        Document(f"d{rng.randrange(60)}", f"{rng.choice(bases)} {rng.choice(['', 'x', 'y z'])}", first + n * seconds)
        for n in range(count)
    ]


Change = Callable[[Deduplicator, list[Document]], object]
# Documents of the step, what it does, settings, and which part of the state is interrupted.
CHANGES: dict[str, tuple[int, Change, dict[str, Any], str]] = {
    "decide one": (1, Deduplicator.decide, {}, ""),
    "decide many": (300, Deduplicator.decide, {}, "/window/"),
    "decide by rarity": (2, Deduplicator.decide, {"measure": "jaccard_idf", "verify": "exact"}, "/rarity"),
    "process": (300, Deduplicator.process, {}, ""),
    "remove": (1, lambda dedup, _: dedup.remove("d59"), {}, ""),
}


@pytest.mark.parametrize("change", CHANGES)
def test_an_interruption_at_any_line_of_a_step_leaves_the_state_before_or_after_it(
    monkeypatch: pytest.MonkeyPatch, change: str
):
    """Later answers and the saved window equal those of a stream that had the step, or never had it. Each line of the
    source is interrupted the last time that the step comes to it."""
    monkeypatch.setattr(decisions, "_COLLECTED_MIN", 0)
    (count, made, values, part_of_state), rng = CHANGES[change], random.Random(7)
    call = "process" if change == "process" else "decide"
    early = [stream(rng, 50, 0.0, 1.0), stream(rng, 50, 50.0, 1.0)]
    step, after = stream(rng, count, 100.0, 30 / count), stream(rng, 40, 130.0, 1.0)

    def fresh(*steps: list[Document]) -> Deduplicator:
        dedup = Deduplicator(Config(window_seconds=40.0, lateness_seconds=2.0, **values))
        for documents in early:
            getattr(dedup, call)(documents)
        for documents in steps:
            made(dedup, documents)
        return dedup

    def later(dedup: Deduplicator) -> tuple[bytes, str, bytes]:
        saved = dedup.save()
        return saved, repr([getattr(dedup, call)(part) for part in (after[:1], after[1:20], after[20:])]), dedup.save()

    expected = [later(fresh()), later(fresh(step))]
    assert expected[0] != expected[1]
    dedup = fresh()
    lines = lines_of(lambda: made(dedup, step))
    for at in {line: at for at, line in enumerate(lines) if part_of_state in line[0]}.values():
        dedup = fresh()
        assert len(lines_of(lambda dedup=dedup: made(dedup, step), at)) == at, "it was interrupted"
        assert later(dedup) in expected, lines[at]


@pytest.mark.parametrize("call", ["decide", "process"])
def test_a_second_interruption_before_a_step_is_undone_leaves_the_state_before_it(
    monkeypatch: pytest.MonkeyPatch, call: str
):
    """As two signals do that come while one kernel runs: the step stays open, and the next call undoes it."""
    rng = random.Random(7)
    early, step, after = stream(rng, 50, 0.0, 1.0), stream(rng, 50, 50.0, 1.0), stream(rng, 40, 100.0, 1.0)

    def fresh() -> Deduplicator:
        dedup = Deduplicator(Config(window_seconds=40.0, lateness_seconds=2.0))
        getattr(dedup, call)(early)
        return dedup

    def later(dedup: Deduplicator) -> tuple[bytes, str, bytes]:
        return dedup.save(), repr(getattr(dedup, call)(after)), dedup.save()

    def interrupted(*_: object, **__: object) -> None:
        raise Raised

    dedup = fresh()
    with monkeypatch.context() as patch:
        for name in ("commit", "undo"):
            patch.setattr(Decider if call == "decide" else BandTable, name, interrupted)
        with pytest.raises(Raised):
            getattr(dedup, call)(step)
    assert dedup.counts()["items"] == 50
    assert later(dedup) == later(fresh())
