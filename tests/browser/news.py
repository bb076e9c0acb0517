"""News for the page: stories that several papers print with small changes, without end; and one morning of them."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

WIRE = Path(__file__).parents[2] / "docs" / "examples" / "wire.jsonl"
PAST_SECONDS = 7200.0

STORIES = {
    "coast-storm": "Ferries along the northern coast will stay in port until Sunday. The weather service expects "
    "gusts of 110 kilometres an hour from Friday evening and has raised its warning to the second "
    "highest level. Harbour masters ask owners of small boats to double their lines, and three "
    "islands have ordered food for a week.",
    "night-trains": "Night trains between Marlow and the southern capitals return in March after a pause of nine "
    "years. The operator has rebuilt forty sleeping cars and promises a price below that of a hotel "
    "bed. Tickets go on sale on Monday; the first two weekends were reserved for the people who kept "
    "the line alive with a petition.",
    "river-library": "The floating library of Osterby has lent its millionth book. A girl of seven took home an atlas "
    "of the deep sea, the staff a cake in the form of a barge. The library visits forty villages "
    "along the river and has no late fees, because, its captain says, the river brings everything "
    "back.",
    "battery-plant": "The battery plant at Lindhafen will hire 1,200 people by autumn, twice as many as planned. "
    "Orders for storage in power grids have overtaken those for cars. The town wants to reopen a tram "
    "line that closed in 1968 to bring workers from the station to the gate.",
    "old-map": "A map of the city from 1547 was found behind a cupboard in a bakery. It shows the wall, two "
    "mills and a market that historians had placed on the other bank. The baker says that he only "
    "wanted to move the flour.",
    "chess-final": "Inga Solberg has won the chess final in the last game of fourteen, with the black pieces, after "
    "six hours and a pawn that no one had counted on. She is the youngest champion in thirty years. "
    "Asked about the secret she named sleep.",
    "عاصفة-الساحل": "تبقى العبّارات على طول الساحل الشمالي في الميناء حتى يوم الأحد، وتتوقّع هيئة الأرصاد رياحًا تصل "
    "سرعتها إلى مئة وعشرة كيلومترات في الساعة منذ مساء الجمعة، ورفعت درجة التحذير إلى المستوى الثاني. "
    "ويطلب مسؤولو المرافئ من أصحاب القوارب الصغيرة مضاعفة الحبال، وطلبت ثلاث جزر مؤونة تكفي أسبوعًا "
    "كاملًا.",
    "مكتبة-النهر": "أعارت المكتبة العائمة كتابها المليون لطفلة في السابعة من عمرها أخذت أطلسًا لأعماق البحار، واحتفل "
    "العاملون بكعكة على شكل قارب. تزور المكتبة أربعين قرية على ضفاف النهر ولا تفرض غرامات على "
    "التأخير، فالنهر كما يقول قبطانها يعيد كل شيء.",
}
PAPERS = (
    "harbour-post.example", "evening-wire.example", "north-star.example", "daily-lantern.example", "the-tide.example",
    "mirror-of-the-day.example", "open-gazette.example", "first-edition.example", "nahar.example", "sabah.example",
)  # fmt: skip
ENDINGS = ("", " More follows.", " Read the full report.", " (agency)", " Updated at noon.")
SUBJECTS = ("council", "school", "orchestra", "harbour", "museum", "forest", "clinic", "bakery", "bridge", "team")
VERBS = ("opens", "studies", "repairs", "paints", "moves", "measures", "plants", "restores", "counts", "plans")
OBJECTS = ("a garden", "the old roof", "its archive", "forty lamps", "a tunnel", "new ferries", "the clock", "a choir")


def documents(seed: int, copies: float = 0.35):
    """Yield documents without end: copies of stories with small changes, and reports of their own."""
    rng = random.Random(seed)
    names = list(STORIES)
    weights = [2.0 / (1 + n) + 0.25 for n in range(len(names))]
    number = 0
    while True:
        number += 1
        paper = rng.choice(PAPERS)
        if rng.random() < copies:
            name = rng.choices(names, weights)[0]
            text = STORIES[name]
            if rng.random() < 0.6:
                sentences = text.split(". ")
                words = sentences[-1].split(" ")
                words[rng.randrange(len(words))] = rng.choice(OBJECTS) if text.isascii() else "اليوم"
                text = ". ".join([*sentences[:-1], " ".join(words)])
            yield {"id": f"https://{paper}/{name}-{number}", "text": text + rng.choice(ENDINGS)}
        else:
            text = ", and ".join(_report(rng) for _ in range(7))
            yield {"id": f"https://{paper}/report-{number}", "text": f"{text}."}


def _report(rng: random.Random) -> str:
    who, what, whom = (rng.choice(words) for words in (SUBJECTS, VERBS, OBJECTS))
    return f"The {who} of district {rng.randrange(9999)} {what} {whom}"


def morning(seed: int = 1) -> Iterator[dict]:
    """Yield the news of ``make demo``, whose copies have edits. Of every five texts another source has one word for
    word, and of every three stories with a number the first text of one is corrected under its id: the number grows."""
    rng = random.Random(seed)
    rows = [json.loads(line) for line in WIRE.read_text(encoding="utf-8").splitlines()]
    sources = sorted({row["source"] for row in rows})
    begun, numbered = set(), 0
    for n, row in enumerate(rows, 1):
        story = row["id"].partition("/")[2]
        one = {"id": f"https://{row['source']}.example/{story}", "text": row["text"]}
        yield one
        if n % 5 == 0:
            yield {**one, "id": f"https://{rng.choice(sources)}.example/{story}-{n}"}
        corrected = re.sub(r"\d+", lambda found: str(int(found[0]) + 1), row["text"], count=1)
        if story not in begun and corrected != row["text"]:
            numbered += 1
            if numbered % 3 == 1:
                yield {**one, "text": corrected}
        begun.add(story)


def with_story(documents: Iterable[dict], step_seconds: float) -> Iterator[dict]:
    """The documents with an address, a title and a date of the last two hours, a step between two, the present at the
    end."""
    for n, one in enumerate(documents):
        date = time.time() - max(0.0, PAST_SECONDS - step_seconds * n)
        title = " ".join(one["text"].split()[:9])[:80]
        yield {**one, "url": one["id"], "title": title, "timestamp": date}
