"""The hash of a picture: that of its copies, and what is no picture."""

from __future__ import annotations

import base64
import io
import sys
from unittest import mock

import numpy as np
import pytest
from PIL import Image

from neardup import Document
from neardup.errors import Reason
from neardup.pairs.json_lines import Fields
from neardup_workers.outside.readers.json.pictures import PIXELS_MAX, difference_hash, with_picture

BITS = 64


def scene(seed: int) -> Image.Image:
    """A picture of soft patches of light."""
    patches = np.random.default_rng(seed).integers(0, 256, (12, 12, 3), np.uint8)
    return Image.fromarray(patches).resize((480, 320), Image.Resampling.BICUBIC)


def packed(image: Image.Image, form: str = "PNG", **options: object) -> bytes:
    """The bytes of a file with a picture."""
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def hash_of(content: bytes, bits: int = BITS) -> bytes:
    """The hash of what is a picture."""
    found = difference_hash(content, bits)
    assert isinstance(found, bytes)
    return found


def differing(one: bytes, other: bytes) -> int:
    return (int.from_bytes(one) ^ int.from_bytes(other)).bit_count()


def test_a_bit_says_whether_a_part_is_brighter_than_the_one_to_its_left() -> None:
    """In lines from the top, the first bit highest: the picture has the size of the hash, so no part is a mean."""
    grey = np.random.default_rng(1).integers(0, 256, (8, 9), np.uint8)
    bits = "".join("01"[int(row[i + 1] > row[i])] for row in grey.tolist() for i in range(8))
    assert hash_of(packed(Image.fromarray(grey))).hex() == f"{int(bits, 2):016x}"


@pytest.mark.parametrize("bits", [BITS, 256])
def test_copies_have_nearly_the_same_hash_and_other_pictures_have_not(bits: int) -> None:
    """In another size, form and quality."""
    hashes = [hash_of(packed(scene(seed)), bits) for seed in range(20)]
    for seed, whole in enumerate(hashes):
        smaller = scene(seed).resize((200, 150))
        assert len(whole) == bits // 8
        assert differing(whole, hash_of(packed(smaller, "JPEG", quality=40), bits)) <= 0.1 * bits
        assert min(differing(whole, other) for other in hashes if other is not whole) > 0.2 * bits


def test_what_is_no_picture_is_refused() -> None:
    """A damaged file, one of a form that is not read, and one whose pixels would fill the memory."""
    whole = packed(scene(1), "JPEG")
    wide = packed(Image.new("1", (PIXELS_MAX // 1000 + 1, 1000)))
    for content in (b"", b"GIF89a", whole[: len(whole) // 2], packed(scene(1), "PPM"), wide):
        assert difference_hash(content, BITS) == "picture"
        assert isinstance(difference_hash(content, BITS), Reason)


def test_a_line_brings_the_bytes_of_its_picture() -> None:
    """As a ``data:`` URL, where pictures are compared; without Pillow the refusal says what to install."""
    content, fields = packed(scene(1)), Fields(picture_bits=BITS)
    url = f"data:image/png;base64,{base64.b64encode(content).decode()}"
    document = Document("a", "some words", picture=url)
    assert with_picture(document, "", fields, 0) == document._replace(picture=hash_of(content))
    assert with_picture(document, "", Fields(), 0) == document
    assert with_picture(document._replace(picture=f"{url}?"), "", fields, 0) == "picture_file"
    given = document._replace(picture="ff00ff00ff00ff00")
    assert with_picture(given, "", fields, 0) == given
    with mock.patch.dict(sys.modules, {"PIL.Image": None}):
        assert with_picture(given, "", fields, 0) == given
        assert with_picture(document, "", fields, 0) == "picture_package"
