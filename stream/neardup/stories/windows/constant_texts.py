"""Constant texts: what they are signed as tells one signer from another.

Equal settings sign equally on every machine and with every library. If they do not, stored keys and sketches cannot be
compared with new ones, and nothing else would notice: documents would only find fewer copies. So a window keeps a hash
of what these texts were signed as, and a process that goes on with it signs them again.

The texts are of each kind: ASCII, two and four bytes a character, marks and signs that expand, letters without a small
form until a later version of Unicode, a lone surrogate. So they call every kernel that signs, too.
"""

from __future__ import annotations

import mmh3
import numpy as np

from neardup.documents.document import Document
from neardup.pairs.batches import bucket_keys
from neardup.pairs.signing import Signer
from neardup.schemes.config import Config
from neardup.schemes.rows import SCHEMES

TEXTS = (
    "a text to compile the kernels with, which is long enough for a pair in words: " + "one more word " * 9,
    "a text to compile the kernels with, which is long enough for a pair in words: " + "one more word " * 9 + "here",
    "ein Text, der die Kerne übersetzen läßt, größer",
    "a text to compile the kernels with — 漢字, \U0001f600",
    "\u1112\u1161\u11ab\u1100\u1173\u11af e\u0301\u0323 \ufdfa \u0915\u093c compose, expand and reorder",
    "a lone surrogate \ud800 is one, too",
    "The Forest Office confirmed on 12 March 2024 that 1,250 trees (3.5 %) fell; see https://example.org/a?b=1#c.",
    "ΟΔΥΣΣΕΥΣ ὈΔΥΣΣΕΎΣ İstanbul ISPARTA ǅungla ﬃ ſtraße ẞ",
    "Съешь же ещё этих мягких французских булок, да выпей чаю. ЁЖИК и ёжик.",
    "يُولَدُ جَمِيعُ النَّاسِ أَحْرَارًا مُتَسَاوِينَ فِي الْكَرَامَةِ وَالْحُقُوقِ.",
    "吾輩は猫である。名前はまだ無い。ｱｲｳ ㌔ ① Ⅻ ﾊﾟｰｾﾝﾄ",
    "ทุกคนมีสิทธิ และเสรีภาพ सभी मनुष्यों को गौरव और अधिकारों",
    "tabs\tand\r\nlines\x1cand\u2003wide\u3000blanks\u200band  runs   of them",
    # Assigned in Unicode 15, 15.1, 16 and 17, some with a small form: another version reads other words and letters.
    "\U0001e030\U0001e031 \U00011f04\U00011f05 \U0002ebf0\U0002ebf1 \ua7cb\ua7da \U00010d50 \ua7ce\ua7d2 \U000323b0",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001d400\U0001d7ce e\u0301e\u0316\u0301 a\u0305\u0327 \u212b\u2126",
    " ".join(f"word{n * n}" for n in range(300)),
)


def samples(config: Config) -> list[Document]:
    """Return documents that together call every kernel that signs for these settings: texts of each kind, or the
    samples of a scheme of something else. Each has an id of its own, the first content comes twice, and the time is
    0."""
    scheme = SCHEMES[config.scheme]
    made = [scheme.sample(text, config.plan) for text in TEXTS if text.isascii()]
    if config.plan.kind == "text":
        made = [sample._replace(text=text) for sample in made[:1] for text in TEXTS]
    return [sample._replace(id=str(i), timestamp=0.0) for i, sample in enumerate([*made, made[0]])]


def signature_of(config: Config) -> str:
    """Return a hash of what the samples are signed as: contents, evidence, keys, and which are refused.

    Example:
        >>> signature_of(Config()) == signature_of(Config(window_seconds=60.0)) != signature_of(Config(seed=2))
        True
    """
    batch, refusals, *_ = Signer(config).sign(samples(config))
    keys = bucket_keys(batch, config)
    columns = (
        batch.contents.astype("<u8"), batch.fixed, batch.ragged, batch.ragged_starts.astype("<i8"),
        keys.values.astype("<u8"), keys.starts.astype("<i8"), np.array([one.position for one in refusals], "<i8"),
    )  # fmt: skip
    return mmh3.mmh3_x64_128_digest(b"".join(column.tobytes() for column in columns)).hex()
