"""``Config``: every choice and every limit, validated, frozen, with the fingerprints that name a generation.

Two fingerprints, because two kinds of state depend on a configuration. *Signing*: all that decides a bucket key or a
sketch; data signed under different ones can never be compared. *Matching*: the window, the caps and the cut; the
same signed data can be matched anew under another.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import mmh3
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic.fields import FieldInfo

from stream.errors import ConfigError
from stream.normalize import UNICODE_VERSION, NormalForm
from stream.schemes import SCHEMES, Plan
from stream.shingles import SHINGLES, STOPWORD_SHINGLE_WORDS
from stream.tuning import ROWS_LIMIT, Tuning, choose
from stream.words import stop_languages, stop_rules, word_rules

# Raised by hand when the meaning of any hash, row or key changes: the known-answer tests say when.
SIGNING_VERSION = 1
_K_DEFAULTS = {"chars": 5, "words": 3, "stopwords": STOPWORD_SHINGLE_WORDS}
# Seconds: 3,170 years. In microseconds it leaves room for sums of times in 64 bits.
_SECONDS_MAX = 1e11


class Config(BaseModel):
    """What to find and within which limits. Every field has a default; unknown ones are refused by name.

    Raises ``ConfigError`` with the value, the rule and the remedy.

    >>> Config(threshold=0.9).tuning.bands
    13
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    scheme: str = Field("one_permutation", description="how near-duplicates are found: " + ", ".join(SCHEMES))
    shingles: str = Field("chars", description="what is compared: " + ", ".join(SHINGLES))
    k: int | None = Field(
        None, ge=1, le=100, description="characters or words a shingle; by default 5 characters or 3 words"
    )
    languages: tuple[str, ...] = Field(("en",), description="stop lists of the stopwords shingles, by language code")
    nfkc: bool = Field(True, description="normalise texts to Unicode NFKC")
    fold_case: bool = Field(True, description="fold the case of texts")
    fold_space: bool = Field(True, description="take a run of white space as one blank, none at the ends")
    threshold: float = Field(0.8, ge=0.05, le=1.0, description="similarity from which two documents are a pair")
    recall: float = Field(0.95, gt=0.0, lt=1.0, description="probability that a pair at the threshold is emitted")
    min_similarity: float | None = Field(
        None,
        ge=0.0,
        le=1.0,
        description="estimate from which a candidate is emitted; by default chosen for the recall",
    )
    rows_max: int = Field(
        128, ge=1, le=ROWS_LIMIT, description="rows of a signature at most: time and memory for accuracy"
    )
    bands: int | None = Field(None, ge=1, le=ROWS_LIMIT, description="bands; by default chosen for the recall")
    rows: int | None = Field(None, ge=1, le=ROWS_LIMIT, description="rows a band; by default chosen for the recall")
    seed: int = Field(1, ge=0, le=2**63 - 1, description="seed of every hash function")
    sketch_bits: int = Field(8, description="bits kept of each row: 8, 16 or 32")
    window_seconds: float | None = Field(
        None,
        gt=0,
        le=_SECONDS_MAX,
        description="two documents may pair when their times differ by at most this",
    )
    lateness_seconds: float = Field(
        0.0,
        ge=0,
        le=_SECONDS_MAX,
        description="how late a document may come and still meet all of its window",
    )
    window_documents: int = Field(
        1_000_000, ge=1, le=2**30, description="documents held at most; the oldest are evicted first"
    )
    bucket_candidates_max: int = Field(
        256, ge=1, le=2**20, description="candidates taken from one bucket at most, the newest first"
    )
    text_characters_max: int = Field(5_000_000, ge=1, le=2**28, description="characters of a text at most")
    id_bytes_max: int = Field(1024, ge=1, le=65535, description="bytes of an id in UTF-8 at most")

    if not TYPE_CHECKING:  # a type checker sees the fields as keyword arguments instead

        def __init__(self, **values: Any) -> None:
            try:
                super().__init__(**values)
            except ValidationError as error:
                raise ConfigError(_sentences(error, type(self).model_fields)) from None

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Config:
        """The configuration with other values, validated, and with a tuning and fingerprints of its own."""
        del deep  # every value is immutable
        return type(self)(**{**self.model_dump(exclude_unset=True), **(update or {})})

    @field_validator("scheme", "shingles", "sketch_bits", "languages")
    @classmethod
    def _known(cls, value: Any, info: Any) -> Any:
        names = _CHOICES[info.field_name]()
        for name in value if isinstance(value, tuple) else (value,):
            if name not in names:
                close = difflib.get_close_matches(str(name), [str(n) for n in names], 1)
                hint = f" (did you mean {close[0]!r}?)" if close else ""
                raise ValueError(f"must be one of {', '.join(map(str, names))}{hint}")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Config:
        if self.shingles == "stopwords" and self.k not in (None, STOPWORD_SHINGLE_WORDS):
            raise ValueError(f"k={self.k} with stopwords shingles, which are a stop word and two more: leave k out")
        if self.shingles == "stopwords" and not self.languages:
            raise ValueError("languages is empty, but stopwords shingles need a stop list: name at least one language")
        self.tuning  # noqa: B018 - raises ConfigError when the target is out of reach
        return self

    @functools.cached_property
    def tuning(self) -> Tuning:
        """Bands, rows, margin and cut that these settings resolve to."""
        return choose(
            self.threshold,
            self.recall,
            self.rows_max,
            self.sketch_bits,
            self.bands,
            self.rows,
            self.min_similarity,
        )

    @functools.cached_property
    def plan(self) -> Plan:
        """What the functions of the scheme need to know."""
        k = self.k if self.k is not None else _K_DEFAULTS[self.shingles]
        return Plan(self.shingles, k, tuple(sorted(set(self.languages))), self.tuning, self.seed)

    @property
    def normal_form(self) -> NormalForm:
        """The steps of normalisation that are on."""
        return NormalForm(self.nfkc, self.fold_case, self.fold_space)

    @functools.cached_property
    def signing_fingerprint(self) -> str:
        """32 hexadecimal digits, equal for configurations whose keys and sketches are equal for every document."""
        plan, tuning = self.plan, self.tuning
        parts = [SIGNING_VERSION, UNICODE_VERSION, self.scheme, plan.shingles, plan.k, *self.normal_form]
        parts += [tuning.bands, tuning.rows, tuning.sketch_bits, plan.seed, self.text_characters_max]
        if plan.shingles != "chars":
            parts.append(word_rules())
        if plan.shingles == "stopwords":
            parts.append(stop_rules(plan.languages))
        return _digest(parts)

    @functools.cached_property
    def matching_fingerprint(self) -> str:
        """32 hexadecimal digits, equal for configurations that decide alike which signed documents are pairs."""
        tuning = self.tuning
        return _digest(
            [
                self.window_seconds,
                self.lateness_seconds,
                self.window_documents,
                self.bucket_candidates_max,
                tuning.agreements_min,
            ]
        )


def _digest(parts: list[Any]) -> str:
    return mmh3.mmh3_x64_128_digest("\x1f".join(map(str, parts)).encode()).hex()


_CHOICES: dict[str, Any] = {
    "scheme": lambda: tuple(SCHEMES),
    "shingles": lambda: tuple(SHINGLES),
    "sketch_bits": lambda: (8, 16, 32),
    "languages": stop_languages,
}


# What pydantic calls a value out of bounds, and the words for each bound.
_OUT_OF_BOUNDS = ("greater_than", "greater_than_equal", "less_than", "less_than_equal")
_BOUNDS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}


def _sentences(error: ValidationError, fields: Mapping[str, FieldInfo]) -> str:
    """What pydantic found, as one sentence a field: value, rule, remedy; for unknown names the nearest known one."""
    out = []
    for problem in error.errors():
        name = ".".join(map(str, problem["loc"]))
        if problem["type"] == "extra_forbidden":
            close = difflib.get_close_matches(name, fields, 1)
            hint = f"did you mean {close[0]!r}?" if close else "known are: " + ", ".join(fields)
            out.append(f"unknown setting {name!r}; {hint}")
            continue
        rule = problem["msg"].removeprefix("Value error, ").removeprefix("Input ")
        if not name:  # a rule between several fields, which brings its own remedy
            out.append(rule)
            continue
        field = fields[str(problem["loc"][0])]
        if problem["type"] in _OUT_OF_BOUNDS:
            limits = [(word, getattr(m, bound, None)) for m in field.metadata for bound, word in _BOUNDS.items()]
            rule = "must be " + " and ".join(f"{word} {limit:,}" for word, limit in limits if limit is not None)
        fixed = field.default is not None and field.default_factory is None
        remedy = f"the default is {field.default!r}" if fixed else "leave it out"
        out.append(f"{name}={problem['input']!r}: {rule}; {remedy}")
    return "; ".join(out)
