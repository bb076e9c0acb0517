"""``Config``: all settings, validated and frozen, with the fingerprints that name a generation.

Two kinds of state depend on a configuration, so it has two fingerprints. The *signing* fingerprint covers everything
that decides a bucket key or a sketch; data with different ones cannot be compared. The *matching* fingerprint covers
the window, the limits and the least score; the same signed data can be matched again under another.
"""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Self, cast

import mmh3
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializeAsAny,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo

from neardup.documents.document import check_type
from neardup.errors import ConfigError
from neardup.features.texts.normalize import FOLDS
from neardup.features.texts.shingles import SHINGLES
from neardup.features.texts.words import stop_languages
from neardup.features.tokens.verify import SET_MEASURES
from neardup.schemes.interface import Plan
from neardup.schemes.parameters import NOVELTIES, VECTOR_MEASURE_NAMES, VERIFICATIONS, Parameters, SchemeOptions
from neardup.schemes.rows import SCHEMES
from neardup.schemes.scheme_text import scheme_text, split_scheme, unknown_option
from neardup.schemes.theory.tuning import SKETCH_BITS, Tuning

# Increase it by hand when the meaning of a hash, row or key changes; known-answer tests notice when.
SIGNING_VERSION = 2


class _Signature:
    """The signature of a model: one keyword for each field. A model that was not used yet is completed for it, so that
    ``help`` and notebooks show the settings, and not how the constructor passes them on."""

    def __get__(self, instance: object, model: type[BaseModel]) -> inspect.Signature:
        model.model_rebuild()  # puts the signature that pydantic makes instead of this one
        return inspect.signature(model)


class Config(Parameters):
    """What to find, and within which limits. Immutable, comparable and hashable; several threads may share one.

    Args:
        **values: the fields below, all with defaults. Times are in seconds, sizes in bytes or documents as the name
            says, similarities and probabilities in [0, 1]. Unknown names are refused.

    Raises:
        ConfigError: a value is out of its range, settings contradict each other, or the recall is out of reach. The
            message has the value, the rule and the remedy.

    Example:
        >>> config = Config(threshold=0.9, window_seconds=86_400)
        >>> config.tuning.bands, config.tuning.rows
        (11, 11)
        >>> Config(scheme="records:keys=phone") == Config(scheme="records", scheme_options={"keys": ("phone",)})
        True
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    scheme_options: SerializeAsAny[Mapping[str, Any] | SchemeOptions] = Field(
        default={}, validate_default=True, description="options of the scheme, by name"
    )

    __signature__ = _Signature()

    if not TYPE_CHECKING:  # a type checker sees the fields as keyword arguments instead

        def __init__(self, **values: Any) -> None:
            values = _split(values)
            scheme = values.get("scheme")
            of_scheme = SCHEMES[scheme].defaults if isinstance(scheme, str) and scheme in SCHEMES else {}
            try:
                super().__init__(**{**of_scheme, **values})
            except ValidationError as error:
                raise ConfigError(_sentences(error, type(self).model_fields)) from None

    def model_copy(self, *, update: Mapping[str, object] | None = None, deep: bool = False) -> Self:
        """Return the configuration with other values: validated, with its own tuning and fingerprints.

        A scheme among them brings its own options.
        """
        del deep  # every value is immutable
        kept = self.model_dump(exclude_unset=True, exclude={"scheme_options"} if "scheme" in (update or {}) else None)
        return type(self)(**{**kept, **(update or {})})

    def __eq__(self, other: object) -> bool:
        # By the settings alone: what follows from them and was read already may be arrays, which have no one answer.
        return type(self) is type(other) and all(
            getattr(self, name) == getattr(other, name) for name in type(self).model_fields
        )

    @field_validator("fold", mode="before")
    @classmethod
    def _folds(cls, value: Any) -> Any:
        names = value.split(",") if isinstance(value, str) else value
        if not isinstance(names, tuple | list):
            return value
        stripped = [str(name).strip() for name in names]
        if stripped != ["none"] and not set(stripped) <= set(FOLDS):
            raise ValueError(f"must be none, or some of {', '.join(FOLDS)}")
        return tuple(name for name in FOLDS if name in stripped)

    @field_validator("scheme_options", mode="plain")
    @classmethod
    def _of_scheme(cls, value: Any, info: ValidationInfo) -> SchemeOptions:
        scheme = info.data.get("scheme")
        if scheme is None:  # it is refused
            return SchemeOptions()
        kind = SCHEMES[scheme].options
        if isinstance(value, kind):
            return value
        if not isinstance(value, Mapping):
            raise ConfigError(f"scheme_options={value!r} of scheme {scheme}: must be options by name, as {{'name': 1}}")
        try:
            return kind(**value)
        except ValidationError as error:
            raise ConfigError(_sentences(error, kind.model_fields, scheme)) from None

    @field_validator(
        "scheme", "shingles", "sketch_bits", "languages", "measure", "verify", "novelty",
    )  # fmt: skip
    @classmethod
    def _known(cls, value: Any, info: Any) -> Any:
        names = _CHOICES[info.field_name]()
        for name in value if isinstance(value, tuple) else (value,):
            if name not in names:
                close = difflib.get_close_matches(str(name), [str(n) for n in names], 1)
                hint = f" (did you mean {close[0]!r}?)" if close else ""
                raise ValueError(f"must be one of {', '.join(str(n) for n in names if n is not None)}{hint}")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Config:
        if self.false_weight is not None and self.recall != type(self).model_fields["recall"].default:
            raise ConfigError(
                f"recall={self.recall} with false_weight={self.false_weight}, from which the recall results: leave one "
                "of them out"
            )
        asked, options = Asked(self), Asked(self.scheme_options)
        # Raises ConfigError where settings contradict or the target is out of reach. Kept as the cached ``plan``.
        self.__dict__["plan"] = SCHEMES[self.scheme].plan(cast(Parameters, asked), options)
        if is_weighted(self) and SCHEMES[self.scheme].elements is None:
            raise ConfigError(f"measure={self.measure} with scheme {self.scheme}: set scheme to one_permutation")
        if is_weighted(self) and self.collection_field is not None:
            raise ConfigError(
                f"measure={self.measure} with collection_field={self.collection_field}: what is rare in one collection "
                "would depend on the others, so leave one of them out"
            )
        idle = [
            *(name for name in asked.idle() if name in OF_SCHEMES),
            *(f"{self.scheme}:{name}" for name in options.idle()),
        ]
        if idle:
            raise ConfigError(
                f"{', '.join(idle)} has no meaning with scheme {self.scheme}, which does not use it: leave it "
                "out, or choose a scheme that uses it"
            )
        return self

    @functools.cached_property
    def plan(self) -> Plan:
        """The settings as the functions of the scheme read them; see ``neardup.schemes.interface.Plan``."""
        plan: Plan = SCHEMES[self.scheme].plan(self, self.scheme_options)
        return plan

    @functools.cached_property
    def tuning(self) -> Tuning:
        """Bands, rows, margin and least score that these settings resolve to."""
        return self.plan.tuning

    @property
    def recall_promised(self) -> float:
        """Probability that a pair at the threshold is emitted: ``recall``, or what results from ``false_weight``."""
        return self.recall if self.false_weight is None else self.tuning.recall

    @functools.cached_property
    def separate(self) -> bool:
        """Whether documents have collections (``neardup.documents.ids``)."""
        return self.collection_field is not None

    @property
    def probe_limit(self) -> int | None:
        """Candidates after which a probe stops: ``probe_candidates_max``, or what the scheme names; None: all."""
        return self.probe_candidates_max or SCHEMES[self.scheme].probe_candidates_max

    @functools.cached_property
    def signing_fingerprint(self) -> str:
        """32 hexadecimal digits, equal for configurations whose keys and evidence are equal for every document."""
        separate = ["collections"] * self.separate
        return _digest([SIGNING_VERSION, self.scheme, *SCHEMES[self.scheme].signing(self.plan), *separate])

    @property
    def signing_settings(self) -> dict[str, Any]:
        """The settings that are not at their defaults, as values of JSON, to be kept with what is signed; the scheme is
        a text with its options. An order of tokens and templates are not among them."""
        text = scheme_text(self.scheme, cast(SchemeOptions, self.scheme_options))
        scheme = {} if text == Config.model_fields["scheme"].default else {"scheme": text}
        return {**self.model_dump(mode="json", include=_NAMED - {"scheme"}, exclude_defaults=True), **scheme}

    def signed_otherwise(self, kept: Mapping[str, Any]) -> str:
        """Name the settings of which signatures depend and that differ from ``kept``, the ``signing_settings`` of
        another configuration: "threshold is 0.8, but was 0.7", say; empty if none is known to differ."""
        return self._otherwise(kept, lambda config: config.signing_fingerprint)

    def matched_otherwise(self, kept: Mapping[str, Any]) -> str:
        """Name the settings that decide pairs of signed documents and that differ, as ``signed_otherwise`` does."""
        return self._otherwise(kept, lambda config: config.matching_fingerprint)

    def _otherwise(self, kept: Mapping[str, Any], fingerprint: Callable[[Config], str]) -> str:
        now, fields, out = self.signing_settings, type(self).model_fields, []
        for name in sorted(now.keys() | (kept.keys() & _NAMED)):
            is_, was = (values.get(name, fields[name].default) for values in (now, kept))
            if is_ == was:
                continue
            try:
                changed = fingerprint(self.model_copy(update={name: was})) != fingerprint(self)
            except ConfigError:  # another setting must change with it
                changed = True
            if changed:
                out.append(f"{name} is {_shown(is_)}, but was {_shown(was)}")
        return "; ".join(out)

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
                self.probe_limit,
                self.buckets_shared_min,
                self.evidence_bytes_max,
                tuning.agreements_min,
                tuning.score_min,
                *SCHEMES[self.scheme].scoring(self.plan),
            ]
        )


# The settings that a scheme may use or not; the others bound the table, or are met by a scheme that misses nothing.
OF_SCHEMES = Parameters.model_fields.keys() - {
    "bucket_candidates_max", "collection_field", "evidence_bytes_max", "lateness_seconds", "probe_candidates_max",
    "recall", "scheme", "story_seconds_max", "window_documents", "window_seconds",
}  # fmt: skip


def is_weighted(settings: Parameters) -> bool:
    """Return whether similarity depends on counts of the stream (``neardup.features.tokens.rarity``)."""
    return settings.measure in SET_MEASURES and SET_MEASURES[settings.measure].weighted


def checked(config: Config) -> Config:
    """Return a configuration. Raises ``TypeError`` for anything else."""
    check_type(config, Config, "a configuration is a neardup.Config: Config(threshold=0.8)")
    return config


# The settings that are kept as values.
_NAMED = {*Parameters.model_fields}


class Asked:
    """Settings that remember which of them a plan reads."""

    def __init__(self, settings: Any) -> None:
        self._settings = settings
        self.read: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.read.add(name)
        return getattr(self._settings, name)

    def idle(self) -> list[str]:
        """Return the settings that were not read and are not at their defaults, in order of their names."""
        fields, given = type(self._settings).model_fields, self._settings.model_fields_set
        return sorted(name for name in given - self.read if getattr(self._settings, name) != fields[name].default)


def _split(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings whose scheme is a name: the options of its text become ``scheme_options``."""
    scheme = values.get("scheme")
    if not isinstance(scheme, str) or ":" not in scheme:
        return dict(values)
    if values.get("scheme_options"):
        raise ConfigError(f"scheme={scheme!r} has options, and scheme_options are given too: leave one of them out")
    name, options = split_scheme(scheme)
    return {**values, "scheme": name, "scheme_options": options}


def _shown(value: object) -> str:
    return "the default" if value is None else str(value)


def _digest(parts: list[Any]) -> str:
    return mmh3.mmh3_x64_128_digest("\x1f".join(map(str, parts)).encode()).hex()


_CHOICES: dict[str, Any] = {
    "scheme": lambda: tuple(SCHEMES),
    "shingles": lambda: tuple(SHINGLES),
    "measure": lambda: (None, *SET_MEASURES, *VECTOR_MEASURE_NAMES),
    "verify": lambda: VERIFICATIONS,
    "novelty": lambda: NOVELTIES,
    "sketch_bits": lambda: (None, *SKETCH_BITS),
    "languages": stop_languages,
}


# How pydantic names a value out of bounds, and the words for each bound.
_OUT_OF_BOUNDS = ("greater_than", "greater_than_equal", "less_than", "less_than_equal")
_BOUNDS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}


def _sentences(error: ValidationError, fields: Mapping[str, FieldInfo], scheme: str = "") -> str:
    """Turn the findings of pydantic into a sentence a field: value, rule, remedy; or the nearest known name.

    The fields are settings, or the options of ``scheme``.
    """
    out = []
    for problem in error.errors():
        name = ".".join(map(str, problem["loc"]))
        if problem["type"] == "extra_forbidden":
            if scheme:
                out.append(unknown_option(scheme, name))
                continue
            close = difflib.get_close_matches(name, fields, 1)
            hint = f"did you mean {close[0]!r}?" if close else "known are: " + ", ".join(fields)
            out.append(f"unknown setting {name!r}; {hint}")
            continue
        rule = problem["msg"].removeprefix("Value error, ").removeprefix("Input ").removeprefix("String ")
        if name in ("", "scheme_options"):  # rules between several fields and of options bring their own remedies
            out.append(rule)
            continue
        field = fields[str(problem["loc"][0])]
        if problem["type"] in _OUT_OF_BOUNDS:
            limits = [(word, getattr(m, bound, None)) for m in field.metadata for bound, word in _BOUNDS.items()]
            rule = "must be " + " and ".join(f"{word} {limit:,}" for word, limit in limits if limit is not None)
        fixed = field.default is not None and field.default_factory is None
        remedy = f"the default is {field.default!r}" if fixed else "leave it out"
        label = f"{scheme}:{name}" if scheme else name
        out.append(f"{label}={problem['input']!r}: {rule}; {remedy}")
    return "; ".join(out)
