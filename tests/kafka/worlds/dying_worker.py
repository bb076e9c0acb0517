"""A worker that kills or stops itself after a call of its producer: ``dying_worker.py ROLE INSTANCE SIGNAL CALL...``.

The process forks one worker for each CALL. The worker sends itself SIGNAL (a number) as soon as that call of its
producer returns in a step with output; its successor has the same name. After the last CALL an ordinary worker follows.
Standard output gets one line for each worker: the call and the process id. All workers are forks of one process that
has loaded everything, so each starts at once; clients are made after the fork.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import Any

import limited

from neardup_workers.outside.settings.load import load_stream
from neardup_workers.outside.transport.kafka.producer import KafkaTransactionalProducer
from neardup_workers.running.cli import app as cli
from neardup_workers.running.service.roles import ROLES

ORDINARY = "ordinary"


def strike_after(call: str, number: int) -> None:
    """Send the signal after the first return of ``call`` in a transaction that has sent a record."""
    inner = getattr(KafkaTransactionalProducer, call)
    send = KafkaTransactionalProducer.send
    sent: list[int] = []

    def struck(self: Any, *given: Any, **named: Any) -> None:
        inner(self, *given, **named)
        if sent or call == "send":
            os.kill(os.getpid(), number)

    def noted(self: Any, *given: Any, **named: Any) -> None:
        send(self, *given, **named)
        sent.append(1)

    KafkaTransactionalProducer.send = noted
    setattr(KafkaTransactionalProducer, call, struck)


def die_with(parent: int) -> None:
    """Make the kernel kill this process, even if stopped, when its parent ends (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)


def main() -> int:
    role, instance, number, *calls = sys.argv[1:]
    limited.apply()
    settings = load_stream({})
    ROLES["sign"].warm(settings)
    for call in [*calls, ORDINARY]:
        parent, child = os.getpid(), os.fork()
        if not child:
            die_with(parent)
            if call != ORDINARY:
                strike_after(call, int(number))
            sys.argv = ["neardup", role, "--instance", instance, "--from", "earliest", "--supervised"]
            sys.exit(cli.main())
        sys.stdout.write(f"{role} {call} {child}\n")
        sys.stdout.flush()
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status) or os.WTERMSIG(status) != signal.SIGKILL:
            return os.waitstatus_to_exitcode(status)
    return 0


if __name__ == "__main__":
    sys.exit(main())
