"""What degrades is counted, and said in the log without flooding it."""

from neardup.workers.http.degrading import Degrading
from neardup.workers.telemetry.metrics import SERVE, Metrics


def test_a_kind_is_said_at_once_and_then_every_five_minutes(caplog):
    """The line after a pause has what came during it; every request is counted."""
    seconds = [0.0]
    observer = Metrics(SERVE)
    degrading = Degrading(observer, lambda: seconds[0])
    for n in range(600):
        seconds[0] = n / 2
        degrading.refused(401, "192.0.2.7")
    degrading.refused(421, "192.0.2.8")
    seconds[0] = 300.0
    degrading.refused(401, "192.0.2.9")
    assert observer.value("service_requests", "401") == 601
    assert caplog.messages == [
        "1 requests had no valid token, the last one from 192.0.2.7",
        "1 requests named a host that is not this machine, the last one from 192.0.2.8",
        "600 requests had no valid token, the last one from 192.0.2.9",
    ]


def test_counters_of_the_table_are_taken_as_they_are(caplog):
    """A step adds what has grown; a step that was undone takes nothing back."""
    observer = Metrics(SERVE)
    degrading = Degrading(observer, lambda: 0.0)
    for evicted in (0, 3, 2, 5):
        degrading.table({"evicted": evicted, "late": 0, "truncated": 1, "items": 9})
    assert [observer.value(name) for name in ("evicted", "late", "truncated")] == [5, 0, 1]
    assert sorted(message.split()[0] for message in caplog.messages) == ["1", "3"]
