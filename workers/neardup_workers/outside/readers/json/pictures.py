"""Pictures of lines in files -> their difference hashes: whether each part is brighter than the one to its left.

A line brings the hash itself, a ``data:`` URL with base64, or the name of a file; one from a network only the hash.
Copies in another size, format or quality have nearly the same bits. They are those of ``imagehash.dhash``.

Source: Krawetz, "Kind of like that", 2013.
"""

from __future__ import annotations

import base64
import importlib
import io
import os
import stat
from math import isqrt

import numpy as np

from neardup.documents.document import Document
from neardup.errors import Reason
from neardup.pairs.json_lines import Fields

# What papers and sites use. Pillow reads others too, some of them through programs and packages of their own.
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "TIFF", "WEBP")
# From more on Pillow warns: 360 MB while the picture is read.
PIXELS_MAX = 89_478_485


def with_picture(document: Document | Reason, path: str, fields: Fields, bytes_max: int) -> Document | Reason:
    """Return a document with the hash of its picture, if pictures are compared; or the reason of its refusal. The name
    of a file counts from the folder of ``path`` on."""
    if isinstance(document, Reason) or fields.picture_bits is None or not isinstance(given := document.picture, str):
        return document
    try:
        bytes.fromhex(given)
    except ValueError:
        content = _content(given, os.path.dirname(path), bytes_max)
        found = content if isinstance(content, Reason) else difference_hash(content, fields.picture_bits)
        return found if isinstance(found, Reason) else document._replace(picture=found)
    return document


def _content(given: str, folder: str, bytes_max: int) -> bytes | Reason:
    try:
        if given.startswith("data:"):
            return base64.b64decode(given.partition(",")[2], validate=True)
        root, name = os.path.realpath(folder), os.path.realpath(os.path.join(folder, given))
        status = os.stat(name)
        is_inside = os.path.commonpath((root, name)) == root  # lines of a crawl may name any file
        if not (is_inside and stat.S_ISREG(status.st_mode) and status.st_size <= bytes_max):
            return Reason("picture_file")
        with open(name, "rb") as file:
            return file.read(bytes_max)
    except (OSError, ValueError):  # the latter of base64, and of a name with a zero byte
        return Reason("picture_file")


def difference_hash(content: bytes, bits: int) -> bytes | Reason:
    """Return the hash of a picture, the first one of a file in one of ``FORMATS``, or why it has none (a key of
    ``REASONS``). Its bits stand in lines from the top, in a square if there is one."""
    try:
        images = importlib.import_module("PIL.Image")  # by name: no type checker needs the package of this extra
    except ImportError:
        return Reason("picture_package")
    rows = next(n for n in range(isqrt(bits), 0, -1) if bits % n == 0)
    try:
        with images.open(io.BytesIO(content), formats=FORMATS) as image:
            if image.width * image.height > PIXELS_MAX:
                return Reason("picture")
            parts = np.asarray(image.convert("L").resize((bits // rows + 1, rows), images.Resampling.LANCZOS))
    except Exception:  # Pillow raises what the reader of a format does
        return Reason("picture")
    return np.packbits(parts[:, 1:] > parts[:, :-1]).tobytes()
