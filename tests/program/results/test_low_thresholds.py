"""Thresholds and texts of news."""

from __future__ import annotations

import json

from command import Run

TUNINGS = """
import json
from neardup import Config
out = {}
for percent in range(30, 105, 5):
    config = Config(threshold=percent / 100)
    out[percent] = (config.tuning.recall, config.plan.width, config.tuning.sketch_bits)
print(json.dumps(out))
"""
ARTICLE = "the minister of the north said on monday that the new law would not be passed before the end of the year, {}"


def test_any_threshold_from_30_percent_on_works_without_another_setting(python: Run) -> None:
    """Below .55 rows have 16 bits, and a sketch at most 256 bytes; the recall holds everywhere."""
    found = json.loads(python("-c", TUNINGS).stdout)
    assert all(recall >= 0.95 and width <= 256 for recall, width, _ in found.values())
    assert {bits for percent, (_, _, bits) in found.items() if int(percent) >= 55} == {8}


def test_news_compares_bylines_for_equality_only(neardup: Run) -> None:
    """With the preset two articles are a pair at half of their shingles; two bylines are one only if they are equal."""
    texts = {
        "article": ARTICLE.format("and the towns of the south have asked for more time"),
        "edited": ARTICLE.format("while a storm damaged roofs of old houses near a river"),
        "byline": "Photo: a reporter of the agency in London, 3 May",
        "byline of another": "Photo: a reporter of the agency in London, 4 May",
        "byline again": "Photo: a reporter  of the agency in LONDON, 3 May",
    }
    lines = "".join(json.dumps({"id": name, "text": text}) + "\n" for name, text in texts.items())
    done = neardup("run", "--preset", "news", "-q", "-", stdin=lines.encode())
    assert done.returncode == 0, done.stderr.decode()
    pairs = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(pair["older"], pair["newer"]) for pair in pairs] == [("article", "edited"), ("byline", "byline again")]
