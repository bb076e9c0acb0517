"""Small documents that every scheme can read, to compile kernels with before the first real one comes."""

from __future__ import annotations

from stream.config import Config
from stream.documents import Document


def sample(config: Config, id_: str, text: str, timestamp: float) -> Document:
    """A document that brings everything that a scheme may ask for, all of it told from its text.

    Texts that are nearly the same become sets, vectors and records that are nearly the same.
    """
    codes = [ord(character) for character in text]
    tokens = sorted({code * 31 % config.grid_squares for code in codes})
    # Every other field is equal where two texts begin alike.
    fields = {name: text if n % 2 else text[:12] for n, name in enumerate(sorted(_names(config)))}
    return Document(id_, text, timestamp, tokens=tokens, vector=_vector(config, codes), fields=fields)


def _vector(config: Config, codes: list[int]) -> list[float]:
    """Zeros and ones, so that it is one of bits and one of whole numbers too; scaled where lengths have a limit."""
    dimension = config.dimension or 1
    bits = [1] * dimension
    for place, code in enumerate(codes):
        bits[(code + place) % dimension] = code % 2
    bits[0] = 1  # a vector of zeros has no direction
    if config.norm_max is None:
        return list(bits)
    return [bit * config.norm_max / dimension**0.5 for bit in bits]


def _names(config: Config) -> set[str]:
    """Every field of a record that the settings name."""
    scored = (*config.record_fields, *config.record_shingled)
    return {name.split(":")[0] for name in scored} | {name for key in config.record_keys for name in key.split("+")}
