"""The ends of a process: the exit codes, by name, and the errors that lead to them."""

from __future__ import annotations

import signal
from enum import IntEnum


class Exit(IntEnum):
    """The exit codes of every command; ``MEANINGS`` explains each."""

    SUCCESS = 0
    BROKEN = 1
    USAGE = 2
    INPUT = 3
    OUTPUT = 4
    CAPACITY = 5
    BROKER = 6
    TOPIC = 7
    GAP = 8
    GENERATION = 9
    FENCED = 10
    STUCK = 11
    UNUSABLE = 12
    REFUSED = 13
    UNFIT = 14
    LOST = 15
    INTERRUPTED = 130
    TERMINATED = 143


MEANINGS: dict[Exit, str] = {
    Exit.SUCCESS: "all input was read, or workers stopped as asked; also when the reader of the output has closed it",
    Exit.BROKEN: "an invariant of the program is broken: a bug, please report it with the traceback",
    Exit.USAGE: "an unknown option, or a setting or a setting's file that cannot work",
    Exit.INPUT: "an input that was named is missing or cannot be opened",
    Exit.OUTPUT: "an output cannot be written",
    Exit.CAPACITY: "a limit that the design fixes was reached; the message says how to stay below it",
    Exit.BROKER: "the broker refuses what was asked, or does not answer a command that does not wait for it",
    Exit.TOPIC: "a topic is missing, has not the partitions that it must have, has settings that lose live state, or "
    "holds batches in a format that is not read; or the prefix of the topics belongs to another deployment",
    Exit.GAP: "a part of the log that is still needed is gone; --allow-gap goes on without it, but not if a topic was "
    "deleted and made again",
    Exit.GENERATION: "a message of signed was made under another configuration, or a worker has other settings than "
    "those in force for its deployment",
    Exit.FENCED: "another process took over from this worker again and again: give each its own --instance",
    Exit.STUCK: "a step outlasted two minutes, or for as long a partition did not advance or begin, a restore read "
    "nothing, or a worker was in no group",
    Exit.UNUSABLE: "there was input, but nothing of it could be used; the summary says why",
    Exit.REFUSED: "--strict: a document was refused, and the reading ended there; or documents left the window before "
    "their time, so that later ones were not compared with them; or batch would lose nearly all documents of a source",
    Exit.UNFIT: "size: what was asked for cannot work as it is; its table Problems says why, and what to do",
    Exit.LOST: "records that a linker has committed are no longer in originals or sources; --allow-gap goes on without "
    "them",
    Exit.INTERRUPTED: "interrupted (Ctrl-C, SIGINT) after the summary",
    Exit.TERMINATED: "terminated (SIGTERM) after the summary",
}


# Signal that stopped the process (0: none) -> exit code.
EXIT_OF_SIGNAL: dict[int, Exit] = {0: Exit.SUCCESS, signal.SIGINT: Exit.INTERRUPTED, signal.SIGTERM: Exit.TERMINATED}


class Failure(Exception):
    """An intended end of the process: one sentence, and the exit code."""

    def __init__(self, code: Exit, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


def input_failure(what: str, error: OSError) -> Failure:
    """Return the failure for an input that cannot be opened."""
    return Failure(Exit.INPUT, f"cannot read {what}: {error.strerror or error}")


def output_failure(what: str, error: OSError) -> Failure:
    """Return the failure for an output that cannot be written."""
    return Failure(Exit.OUTPUT, f"cannot write {what}: {error.strerror or error}")


def exit_codes_help() -> str:
    """Return the exit codes for the help, a paragraph each."""
    rows = [f"{code.value} {code.name.lower()}: {meaning}" for code, meaning in MEANINGS.items()]
    return "\n\n".join(["Exit codes:", *rows])
