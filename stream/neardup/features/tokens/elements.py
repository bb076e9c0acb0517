"""Elements that documents bring instead of text: tokens, items bought, items with ratings.

An element is a string or a signed 64-bit integer; "7" and 7 are two elements. Elements are not normalised. Each becomes
a ``uint64`` hash. Their order has no meaning; repeated elements make a bag.

Ratings, of items by a customer or of customers by an item, become elements in one of three ways (``RATINGS``):

- ``ignore_low``: an item with a low rating is left out;
- ``liked_hated``: an item has two elements, and the rating chooses one of them;
- ``stars``: an item counts as often as it has stars, for the Jaccard similarity of bags.

Source: Mining of Massive Datasets, 3.1.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.machine.compile import kernel
from neardup.machine.kernels.hashing import GOLDEN, hash_strings, mix64

# What a document may give: elements, or a rating for each.
Given = Sequence[str | int] | Mapping[str, float] | None

# Separates strings from numbers, and both from the seeds of rows.
_STRING, _NUMBER = np.uint64(0x73), np.uint64(0x6E)
# Above every allowed rating. A greater integer may not fit a float.
_RATING_LIMIT = 1e9
# Marks the second element of an item: disliked.
_HATED = np.uint64(0x68)


class RatingRule(NamedTuple):
    """How ratings become elements: a key of ``RATINGS``, the least rating that is not low, the greatest allowed.

    The least allowed is 0, and for ``stars`` 1; stars are whole.
    """

    name: str = "ignore_low"
    high_min: float = 3.0
    rating_max: float = 5.0


class Elements(NamedTuple):
    """Hashed elements of n documents, ``values[starts[i]:starts[i + 1]]``; none for those in ``refused``, which says
    why by position (a key of ``REASONS``)."""

    values: npt.NDArray[np.uint64]
    starts: npt.NDArray[np.int64]
    refused: dict[int, str]


# Elements of a document at most: their signing takes a second.
TOKENS_MAX = 1_000_000


class _Refused(Exception):
    pass


def elements(given: Iterable[Given], rule: RatingRule, elements_max: int) -> Elements:
    """Hash the elements of documents; refuse none, more than ``elements_max``, other types and ratings out of range.

    >>> found = elements([["bread", "milk"], {"alien": 5, "jaws": 1}, []], RatingRule(), elements_max=10)
    >>> found.starts.tolist(), found.refused
    ([0, 2, 3, 3], {2: 'tokens_empty'})
    """
    hashes: list[npt.NDArray[np.uint64]] = []
    refused: dict[int, str] = {}
    for i, one in enumerate(given):
        try:
            hashes.append(_elements_of(one, rule, elements_max))
        except _Refused as reason:
            refused[i] = str(reason)
            hashes.append(np.empty(0, np.uint64))
    starts = np.zeros(len(hashes) + 1, np.int64)
    np.cumsum([len(part) for part in hashes], out=starts[1:])
    return Elements(np.concatenate([np.empty(0, np.uint64), *hashes]), starts, refused)


def _elements_of(given: Given, rule: RatingRule, elements_max: int) -> npt.NDArray[np.uint64]:
    if isinstance(given, str | bytes) or not isinstance(given, Sequence | Mapping | None):
        raise _Refused("tokens_type")
    if given is None:
        raise _Refused("no_tokens")
    if not given:
        raise _Refused("tokens_empty")
    if len(given) > elements_max:
        raise _Refused("tokens_too_many")
    hashes = _hashes(list(given))
    if isinstance(given, Mapping):
        hashes = RATINGS[rule.name](hashes, _ratings(given.values()), rule)
        if len(hashes) > elements_max:
            raise _Refused("tokens_too_many")
        if not len(hashes):
            raise _Refused("tokens_empty")
    return hashes


def _hashes(tokens: list[str | int]) -> npt.NDArray[np.uint64]:
    kinds = set(map(type, tokens))
    if not kinds <= {str, int}:  # neither a bool nor 1.0 is an integer here
        raise _Refused("tokens_type")
    out = np.empty(len(tokens), np.uint64)
    is_string = np.fromiter(map(isinstance, tokens, repeat(str)), np.bool_, len(tokens))
    try:
        strings = [token.encode() for token in tokens if isinstance(token, str)]
        numbers = np.array([token for token in tokens if isinstance(token, int)], np.int64)
    except UnicodeEncodeError:
        raise _Refused("surrogate") from None
    except OverflowError:
        raise _Refused("token_range") from None
    starts = np.zeros(len(strings) + 1, np.int64)
    np.cumsum([len(string) for string in strings], out=starts[1:])
    hashed = np.empty(len(strings), np.uint64)
    hash_strings(np.frombuffer(b"".join(strings), np.uint8), starts, _STRING, hashed)
    out[is_string] = hashed
    out[~is_string] = _mixed(numbers.view(np.uint64), _NUMBER)
    return out


def _ratings(given: Iterable[Any]) -> npt.NDArray[np.float64]:
    out = []
    for rating in given:
        if type(rating) not in (int, float):
            raise _Refused("tokens_type")
        out.append(float(max(-_RATING_LIMIT, min(rating, _RATING_LIMIT))))
    return np.array(out, np.float64)


def _in_range(ratings: npt.NDArray[np.float64], least: float, rule: RatingRule) -> None:
    if not ((ratings >= least) & (ratings <= rule.rating_max)).all():
        raise _Refused("rating_range")


def _ignore_low(
    items: npt.NDArray[np.uint64], ratings: npt.NDArray[np.float64], rule: RatingRule
) -> npt.NDArray[np.uint64]:
    _in_range(ratings, 0.0, rule)
    return items[ratings >= rule.high_min]


def _liked_hated(
    items: npt.NDArray[np.uint64], ratings: npt.NDArray[np.float64], rule: RatingRule
) -> npt.NDArray[np.uint64]:
    _in_range(ratings, 0.0, rule)
    return np.where(ratings >= rule.high_min, items, _mixed(items, _HATED))


def _stars(items: npt.NDArray[np.uint64], ratings: npt.NDArray[np.float64], rule: RatingRule) -> npt.NDArray[np.uint64]:
    _in_range(ratings, 1.0, rule)
    if (ratings != np.floor(ratings)).any():
        raise _Refused("rating_range")
    return np.repeat(items, ratings.astype(np.int64))


_Rate = Callable[[npt.NDArray[np.uint64], npt.NDArray[np.float64], RatingRule], npt.NDArray[np.uint64]]
# How ratings become elements; the parameter ``ratings`` is one of these names.
RATINGS: dict[str, _Rate] = {"ignore_low": _ignore_low, "liked_hated": _liked_hated, "stars": _stars}


def _mixed(values: npt.NDArray[np.uint64], purpose: np.uint64) -> npt.NDArray[np.uint64]:
    out = np.empty_like(values)
    _mix(values, purpose, out)
    return out


@kernel("u64[], u64, u64[]")
def _mix(values, purpose, out):
    for i in range(len(values)):
        out[i] = mix64(values[i] + purpose * GOLDEN)
