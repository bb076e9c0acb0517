"""Random streams of records and of fingerprints with many near-duplicates, for the laws."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from neardup import Document

GIVEN = ["ann", "bill", "william", "bob", "élodie", "мария", "kate", "katherine", "jo", "lee"]
STREETS = ["elm street", "oak avenue", "Rue de l'Église", "high street", "mill lane", "улица Мира"]
SQUARES = 400


def record_stream(rng: random.Random, size: int, **chances: Any) -> list[Document]:
    """People with a name, an address and a phone; many later ones are earlier ones with one or two changed fields."""
    spoilt: list[dict[str, str]] = [{}, {"name": " "}, {"name": "\ud800"}, {"age": "7"}]
    documents = _stream(rng, size, _person, _changed_person, **chances)
    return [
        document._replace(fields=content if rng.random() > 0.02 else rng.choice(spoilt))
        for document, content in documents
    ]


def print_stream(rng: random.Random, size: int, **chances: Any) -> list[Document]:
    """Fingerprints on a grid of ``SQUARES``; many later ones are earlier ones with some squares lost and some new."""
    spoilt: list[list[Any]] = [[], [SQUARES], [-1, 3], ["3"]]
    documents = _stream(rng, size, _print, _changed_print, **chances)
    return [
        document._replace(tokens=content if rng.random() > 0.02 else rng.choice(spoilt))
        for document, content in documents
    ]


def _stream(
    rng: random.Random,
    size: int,
    make: Callable[[random.Random], Any],
    change: Callable[[random.Random, Any], Any],
    *,
    copies: float = 0.25,
    versions: float = 0.0,
    jitter: float | None = None,
) -> list[tuple[Document, Any]]:
    """New and changed documents and, with the given probabilities, exact copies and earlier ids.

    With ``jitter`` event times grow by a second a document on average, and are late by at most ``jitter`` seconds.
    """
    contents: list[Any] = []
    out: list[tuple[Document, Any]] = []
    clock = 1000.0
    for n in range(size):
        clock += rng.expovariate(1)
        kind = rng.random()
        if contents and kind < copies:
            content = rng.choice(contents)
        elif contents and kind < copies + 0.4:
            content = change(rng, rng.choice(contents))
        else:
            content = make(rng)
        contents.append(content)
        id_ = rng.choice(out)[0].id if out and rng.random() < versions else f"d{n}"
        time = None if jitter is None else clock - rng.random() * jitter
        out.append((Document(id_, timestamp=time), content))
    return out


def _person(rng: random.Random) -> dict[str, str]:
    name = f"{rng.choice(GIVEN)} {''.join(rng.choices('aeioumnrst', k=7))}"
    address = f"{rng.randrange(1, 99)} {rng.choice(STREETS)}"
    return {"name": name, "address": address, "phone": str(rng.randrange(10**6, 10**7))}


def _changed_person(rng: random.Random, person: dict[str, str]) -> dict[str, str]:
    """A letter exchanged in a field, another first name, or a field left out; the other fields stay."""
    field = rng.choice(list(person))
    value = person[field]
    kind = rng.random()
    if kind < 0.2 and len(person) > 2:
        return {name: value for name, value in person.items() if name != field}
    if kind < 0.4 and "name" in person:
        return {**person, "name": f"{rng.choice(GIVEN)} {person['name'].rpartition(' ')[2]}"}
    at = rng.randrange(len(value))
    return {**person, field: value[:at] + rng.choice("xyz089") + value[at + 1 :]}


def _print(rng: random.Random) -> list[int]:
    return rng.sample(range(SQUARES), 140)


def _changed_print(rng: random.Random, squares: list[int]) -> list[int]:
    """Replace a tenth of the squares."""
    kept = rng.sample(squares, len(squares) * 9 // 10)
    return list({*kept, *rng.sample(range(SQUARES), len(squares) - len(kept))})
