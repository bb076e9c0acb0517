"""``Parameters``: the settings with checked bounds; schemes make their plans from it.

A scheme checks the rules between several fields in its ``plan``; ``Config`` runs all checks.
"""

from __future__ import annotations

from typing import Any, ClassVar, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationInfo, field_validator

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


class Numbers(BaseModel):
    """Fields of which those that are numbers refuse a switch, which pydantic would read as 0 or 1."""

    @field_validator("*", mode="before")
    @classmethod
    def _is_no_switch(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, bool):
            kind = cls.model_fields[str(info.field_name)].annotation
            kinds = {kind, *get_args(kind)}
            if bool not in kinds and kinds & {int, float}:
                raise ValueError("must be a number, not true or false")
        return value


class SchemeOptions(Numbers):
    """The options of a scheme: settings that no other kind of scheme has. A kind with options derives its table."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    # Options whose values stand in files of their own: a text of options has the path.
    in_files: ClassVar[tuple[str, ...]] = ()


class Parameters(LibraryOptions, Numbers):
    """What to find, and within which limits. Every field has a default."""

    # The validators of a model take longer to make than its class, and a program uses one of the models derived here.
    model_config = ConfigDict(defer_build=True)
