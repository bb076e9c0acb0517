"""``Parameters``: the settings with checked bounds; schemes make their plans from it.

A scheme checks the rules between several fields in its ``plan``; ``Config`` runs all checks.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict

from neardup.schemes.declared import LibraryOptions

# What the similarity of a candidate is computed from: two sketches, or the elements themselves.
VERIFICATIONS = ("sketch", "exact")
# When a document may be dropped: by overlap alone, if it has no new number, or if all that it says was said.
NOVELTIES = ("off", "numbers", "words")
# The keys of ``VECTOR_MEASURES`` of ``neardup_textbook.kinds.vector_measures``, which is loaded with its schemes.
VECTOR_MEASURE_NAMES = ("cosine", "dot", "euclidean", "hamming", "hamming_symbols", "l1")


def one_of(*values: object) -> AfterValidator:
    """Return the rule of an option that has one of a few values."""

    def check(value: object) -> object:
        if value not in values:
            raise ValueError(f"must be one of {', '.join(map(str, values))}")
        return value

    return AfterValidator(check)


class SchemeOptions(BaseModel):
    """The options of a scheme: settings that no other kind of scheme has. A kind with options derives its table."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    # Options whose values stand in files of their own: a text of options has the path.
    in_files: ClassVar[tuple[str, ...]] = ()


class Parameters(LibraryOptions, BaseModel):
    """What to find, and within which limits. Every field has a default."""

    # The validators of a model take longer to make than its class, and a program uses one of the models derived here.
    model_config = ConfigDict(defer_build=True)
