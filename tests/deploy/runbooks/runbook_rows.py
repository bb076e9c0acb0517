"""One table: each alert, the incident that brings it, and what the commands of its runbook say then.

``real``: the program brings the values itself. Where that is too dear, the registry of the role gets them, and the row
says why.
"""

from __future__ import annotations

from typing import NamedTuple

import service_incidents as service
import worker_incidents as worker
from registry_incidents import gauges, lone, memory, samples, stuck
from worker_incidents import VERDICTS, Incident, ends, near_copies, waits_for_others

from neardup_workers.outside.topics.names import FILTER, LINK, MATCH, SIGN

REAL = "real"
JOBS = {SIGN: "neardup-signer", MATCH: "neardup-matcher", LINK: "neardup-linker", FILTER: "neardup-filter"}


# Each single check of a service can be slow on a busy machine.
SLOW = frozenset({"NeardupServiceSlow"})


class Row(NamedTuple):
    """An alert of ``deploy/alerts.yml``.

    Args:
        incident: brings it about.
        says: for each command of the section, its exit code and a pattern of its output.
        values: ``real``, or why the registry gets them.
        also: alerts that the incident brings besides.
        perhaps: alerts that it may bring, by the speed of the machine.
        job: the job of the process, if the rule names one; else each alert has its own.
        by_scrape: each scrape sees another moment of the incident, however slow the machine is.
        last: the incident begins when all others were followed: it is about all workers of a job.
    """

    incident: Incident
    says: tuple[tuple[int, str], ...]
    values: str = REAL
    also: frozenset[str] = frozenset()
    perhaps: frozenset[str] = frozenset()
    job: str = ""
    by_scrape: bool = False
    last: bool = False


def absent(role: str, called: str, waits: str, *also: str, **changes: object) -> Row:
    """The only worker of a role has ended; the second command starts another one."""
    return Row(
        ends(role, **changes),
        ((11, rf"no {called} is a member of .*{waits}"), (0, rf"-{role}-[0-9a-f]+-0: ready on ")),
        also=frozenset(("NeardupWorkerDown", *also)),
        job=JOBS[role],
        last=True,
    )


ROWS: dict[str, Row] = {
    "NeardupWorkerDown": Row(ends(SIGN), ((11, "no signer is a member of .*4 records wait"),)),
    "NeardupSignersAbsent": absent(SIGN, "signer", "4 records wait"),
    "NeardupMatchersAbsent": absent(MATCH, "matcher", "records wait"),
    "NeardupLinkersAbsent": absent(LINK, "linker", "records wait", **VERDICTS),
    "NeardupFiltersAbsent": absent(FILTER, "filter", "records wait", **VERDICTS),
    "NeardupWorkerRestarting": Row(worker.restarts, ((0, r'cause="unreachable"} [1-9]'),)),
    "NeardupDisconnected": Row(worker.disconnected, ((0, "sign"), (0, "the broker does not answer"))),
    "NeardupNotReady": Row(worker.not_ready, ((0, r"waiting: \[0\]"),)),
    "NeardupRestoreTooLong": Row(
        worker.restoring, ((0, r"restoring: \[0, 1\]"), (0, r'partition="0"} 0\.')), also=frozenset({"NeardupNotReady"})
    ),
    "NeardupWorkerIdle": Row(worker.idle, ((0, "1 of 3 signers have no partition: there are 2"),)),
    "NeardupLagGrowing": Row(
        worker.lag,
        (
            (11, r"signers are behind: partition 0 of documents has [1-9]"),
            (0, r'neardup_lag_records{partition="0"} [1-9]\d{2}'),
        ),
        by_scrape=True,
    ),
    "NeardupNoProgress": Row(
        worker.aborted,
        ((0, r"sign .* 40 "), (0, r'outcome="aborted"} [1-9]')),
        also=frozenset({"NeardupTransactionsFailing"}),
    ),
    "NeardupPartitionStuck": Row(
        stuck,
        ((0, '"partition": 1'),),
        values="a worker ends itself before its partition stands still for so long",
        by_scrape=True,
    ),
    "NeardupTransactionsFailing": Row(
        worker.sometimes_aborted, ((0, r'outcome="aborted"} [1-9]'), (0, "partitions: 0, 1"))
    ),
    "NeardupCommitSlow": Row(
        samples(SIGN, "commit_seconds", 0.01, 4.0),
        ((0, r'neardup_commit_seconds_bucket{le="2.0"} 10'),),
        values="the twin of the broker takes no time",
    ),
    "NeardupEndToEndSlow": Row(
        worker.late_pairs, ((0, r"match .* 0 "), (0, r'neardup_end_to_end_seconds_bucket{le="600.0"} 0'))
    ),
    "NeardupRefusedShare": Row(worker.refused, ((0, '"reason":"no_text"'), (0, "no_text"))),
    "NeardupHotBuckets": Row(
        near_copies(bucket_candidates_max=4, probe_candidates_max=100_000),
        ((0, "neardup_truncated_total [1-9]"),),
        also=frozenset({"NeardupPairsMissedAtLimits"}),
    ),
    "NeardupPairsMissedAtLimits": Row(
        near_copies(probe_candidates_max=4),
        ((0, "neardup_missed_pairs_total [1-9]"), (0, r"^\[\]")),
        also=frozenset({"NeardupHotBuckets"}),
    ),
    "NeardupEvictions": Row(worker.evictions, ((0, "neardup_evicted_total [1-9]"),)),
    "NeardupLateDocuments": Row(worker.late, ((0, "match"), (0, "neardup_late_total [1-9]"))),
    "NeardupAlignmentWaits": Row(
        waits_for_others(),
        ((0, '"held_back_by": "sign"'), (0, "neardup_align_wait_seconds [1-9]")),
        also=frozenset({"NeardupPartitionBehind"}),
    ),
    "NeardupPartitionBehind": Row(
        worker.partition_behind,
        ((11, "signers are behind: partition [01]"), (0, r"neardup_align_behind_seconds{.*} 3[56]\d\d")),
    ),
    "NeardupUnaligned": Row(waits_for_others(align_wait_seconds_max=30.0), ((0, "neardup_unaligned_total [1-9]"),)),
    "NeardupClocksAhead": Row(worker.clocks_ahead, ((0, "neardup_clamped_total [1-9]"),)),
    "NeardupTableNearlyFull": Row(
        gauges(MATCH, {"table_documents,0": 400_000}, {"table_documents,0": 450_000, "table_documents,1": 450_000}),
        ((0, r'partition="1"} 450000'),),
        values="900,000 documents take half a gigabyte",
    ),
    "NeardupShardUneven": Row(
        gauges(
            MATCH,
            {f"table_documents,{shard}": 50_000 for shard in range(4)},
            {"table_documents,0": 190_000, **{f"table_documents,{shard}": 10_000 for shard in (1, 2, 3)}},
        ),
        ((0, '"similarity":1.0'), (0, r'partition="0"} 190000')),
        values="220,000 documents take too long",
    ),
    "NeardupLargeCluster": Row(
        gauges(LINK, {"cluster_members_max": 10}, {"cluster_members_max": 12_000}),
        ((0, '"status":"duplicate"'),),
        values="a cluster of 10,000 documents takes too long",
    ),
    "NeardupMemoryNearlyFull": Row(
        memory,
        ((0, r"process_resident_memory_bytes 3\.89"),),
        job="neardup-matcher",
        values="the process collector reads a file that says 3.9 GB",
    ),
    "NeardupDocumentsMissedAtLimits": Row(
        lone,
        ((0, "match"), (0, '"value": 0')),
        values="the registry of the real matcher counts them: chance seldom cuts all pairs of a document",
        also=frozenset({"NeardupHotBuckets", "NeardupPairsMissedAtLimits"}),
    ),
    "NeardupCanaryFault": Row(
        service.canary_fault,
        (
            (0, r'neardup_canary_probes_total{outcome="fault"} [1-9]'),
            (0, r'neardup_canary_probes_total{outcome="fault"} 1'),
            (0, r'"faults": [1-9]'),
        ),
        values="real in the service; the matcher next to it has the value alone",
    ),
    "NeardupRecallBelowPromise": Row(
        service.recall_below,
        ((0, r'"alarm": true'), (0, "neardup_recall_alarm 1"), (0, "neardup_recall_alarm 1")),
        values="the alarm itself is given misses: chance brings them once in a million streams",
    ),
    "NeardupStandbyBehind": Row(
        gauges(MATCH, {"standby_lag_seconds,0": 1}, {"standby_lag_seconds,0": 90}),
        ((0, "partitions: 0, 1"), (0, r'neardup_standby_lag_seconds{partition="0"} 90')),
        values="the twin applies what is committed at once",
    ),
    "NeardupServiceDiskFull": Row(
        service.full_disk, ((0, "Use%"), (0, "neardup_service_full_total [1-9]")), perhaps=SLOW
    ),
    "NeardupServiceBusy": Row(
        service.busy,
        ((0, r'neardup_service_requests_total{status="429"} [1-9]'),),
        perhaps=SLOW,
    ),
    "NeardupServiceGuessed": Row(service.guessed, ((0, r'neardup_service_requests_total{status="401"} [1-9]'),)),
    "NeardupSourceRepeats": Row(service.repeats, ((0, r'"repeating":\[.*page\.example'),)),
    "NeardupWebhookWaits": Row(service.hook_waits, ((0, '"waiting":3'),), perhaps=SLOW),
    "NeardupWebhookDead": Row(service.hook_dead, ((0, '"failure":"status 400"'),), perhaps=SLOW),
    "NeardupServiceSlow": Row(
        service.slow,
        ((0, r'"seconds_p99":(0?\.)?[1-9]'), (0, r'neardup_service_check_seconds_bucket{le="0.05"} [0-3]\.0')),
    ),
    "NeardupWatermarkStands": Row(worker.watermark, ((11, "no matcher is a member"), (0, "partitions: 0"))),
    "NeardupDuplicatesJump": Row(worker.jump, ((0, '"status":"duplicate"'),)),
    "NeardupVerdictsIncomplete": Row(worker.incomplete, ((0, "link"), (0, '"incomplete":true'))),
    "NeardupDocumentsGone": Row(worker.gone, ((0, "filter"), (0, "neardup_gone_total [1-9]"))),
    "NeardupFeedFails": Row(service.feed_fails, ((0, r'neardup_feed_failures{feed="http://feeds.example/news"} 3'),)),
    "NeardupFeedSilent": Row(
        service.feed_silent, ((0, r'neardup_feed_newest_time_seconds{feed="http://feeds.example/news"} 1'),)
    ),
}
