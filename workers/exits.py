"""How a process ends: the exit codes, by name, and the errors that lead to them."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """The exit codes of every command. ``MEANINGS`` says what each tells."""

    SUCCESS = 0
    BROKEN = 1
    USAGE = 2
    INPUT = 3
    OUTPUT = 4
    CAPACITY = 5
    INTERRUPTED = 130
    TERMINATED = 143


MEANINGS: dict[Exit, str] = {
    Exit.SUCCESS: "all input was read; also when whoever read the output has closed it",
    Exit.BROKEN: "an invariant of the program is broken: a bug, please report it with the traceback",
    Exit.USAGE: "an unknown option, or a setting or a setting's file that cannot work",
    Exit.INPUT: "an input that was named is missing or cannot be opened",
    Exit.OUTPUT: "an output cannot be written",
    Exit.CAPACITY: "a limit that the design fixes was reached; the message says how to stay below it",
    Exit.INTERRUPTED: "interrupted (Ctrl-C, SIGINT) after the summary",
    Exit.TERMINATED: "terminated (SIGTERM) after the summary",
}


class Failure(Exception):
    """What ends a process on purpose: one sentence, and the exit code."""

    def __init__(self, code: Exit, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


def input_failure(what: str, error: OSError) -> Failure:
    """The failure for an input that cannot be opened."""
    return Failure(Exit.INPUT, f"cannot read {what}: {error.strerror or error}")


def output_failure(what: str, error: OSError) -> Failure:
    """The failure for an output that cannot be written."""
    return Failure(Exit.OUTPUT, f"cannot write {what}: {error.strerror or error}")


def exit_codes_help() -> str:
    """The exit codes for the help, a paragraph each."""
    rows = [f"{code.value} {code.name.lower()}: {meaning}" for code, meaning in MEANINGS.items()]
    return "\n\n".join(["Exit codes:", *rows])
