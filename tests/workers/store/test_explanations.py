"""Every explanation of every member of every story, against what the service answered at the time."""

import json
import random
import unicodedata

import pytest
from service_world import opened

from neardup.documents.document import Document
from neardup_workers.outside.settings.serve import ServeSettings

SETS = {
    "itn_multilingual": ("docs.jsonl", 0.7, 3600.0 * 24 * 30),
    "licence_texts": ("docs.jsonl", 0.7, None),
    "html_articles": ("ground-truth.json", 0.5, None),
}
SIMILARITY = 1e-4


def documents(path):
    """The documents of a set. Of every five, the last one is a later version of an earlier id."""
    if path.suffix == ".json":
        rows = [(id_, one["articleBody"]) for id_, one in json.loads(path.read_text()).items()]
        rows += [(f"{id_}-copy", f"{text} Read more.") for id_, text in rows]
    else:
        rows = [(one["id"], one["text"]) for one in map(json.loads, path.read_text().split("\n")[:-1])]
    return [
        Document(rows[n - 4][0] if n % 5 == 4 else id_, text, 1e9 + 600.0 * n)
        for n, (id_, text) in enumerate(rows)
        if text.strip()
    ]


def stream(seed):
    """Documents of a few serials: versions, copies with a few other words, and ids that come back."""
    draw = random.Random(seed)
    serials = [[f"s{n}w{draw.randrange(10**6)}" for _ in range(60)] for n in range(4)]
    for n in range(80):
        words = draw.choice(serials)
        for _ in range(draw.choice((0, 0, 1, 3))):
            words[draw.randrange(60)] = f"x{draw.randrange(10**6)}"
        yield Document(f"d{draw.randrange(60)}", " ".join([*words, *["end"] * draw.randrange(3)]), 1e9 + 60.0 * n)


def plain(text):
    """A text as it is compared: NFKC, case folded, runs of white space as one blank."""
    return " ".join(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).split())


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.long) for name in SETS])
def test_no_explanation_of_a_member_is_false(tmp_path, real_data, name):
    """The reason says whether the pair was emitted when the later one came, which copy made it, or what the decision
    compared; the similarity is that of the comparison."""
    file, threshold, window = SETS[name]
    found = documents(real_data(name) / file)
    keeper = opened(tmp_path, ServeSettings(threshold=threshold, window_seconds=window, clock="event"))
    assert explained(keeper, found).get("pair", 0) > 20


@pytest.mark.parametrize("seed", range(4))
def test_an_explanation_is_of_the_versions_that_the_verdict_compared(tmp_path, seed):
    """Original and copy stand in their order and have the similarity of the verdict, whatever versions came later."""
    settings = ServeSettings(threshold=0.5, clock="event", keep_texts=True)
    reasons = explained(opened(tmp_path, settings), list(stream(seed)))
    assert min(reasons["version"], reasons["pair"]) > 0, reasons


def explained(keeper, found):
    """Ask about every duplicate of a stream; return how often each reason came."""
    answers, contents = {}, {}
    for document in found:
        [answer] = keeper.check([document])
        if answer.refused is None:
            answers[document.id] = answer
            contents[answer.verdict["place"]] = (document.id, document.text)
    reasons, wrong = {}, []
    for id_, answer in answers.items():
        original = answer.verdict["duplicate_of"]
        if answer.verdict["status"] != "duplicate" or original in (None, id_):
            continue
        if answers[original].verdict["duplicate_of"] == id_:  # each is a copy of a version of the other
            continue
        why = keeper.why(original, id_)
        reasons[why.reason] = reasons.get(why.reason, 0) + 1
        if why != keeper.why(id_, why.older) or not _is_true(why, answer, answers, contents):
            wrong.append((why, answer))
    keeper.log.close()
    assert not wrong, f"{len(wrong)} of {sum(reasons.values())} ({reasons}), such as {wrong[:3]}"
    return reasons


def _is_true(why, answer, answers, contents):
    verdict = answer.verdict
    original = verdict["duplicate_of"]
    if (why.older, why.newer) != (original, answer.id):
        return False
    if why.passages and not _shares(why, *(contents[verdict[of]][1] for of in ("matched", "place"))):
        return False
    if why.reason == "pair":
        emitted = [(pair.older, pair.similarity) for pair in answer.pairs]
        return any(one == original and abs(found - why.similarity) < SIMILARITY for one, found in emitted)
    compared, latest = contents[verdict["matched"]], answers[original].verdict["place"]
    is_close = compared[0] == original and abs((verdict["similarity"] or 1.0) - why.similarity) < SIMILARITY
    if why.reason == "decided":
        return verdict["matched"] == latest and is_close
    if why.reason == "version":
        return verdict["matched"] != latest and is_close
    if why.reason == "copy":
        both = [plain(contents[answers[one].verdict["place"]][1]) for one in (original, answer.id)]
        return any(id_ == why.about and plain(text) in both for id_, text in contents.values())
    return False


def _shares(why, older, newer):
    """Whether the passages of an explanation make up both texts."""
    sides = [[one for one in why.passages if one.kind in kinds] for kinds in (("both", "first"), ("both", "second"))]
    return all(
        plain("".join(one.text for one in side)) == plain(text)
        for side, text in zip(sides, (older, newer), strict=True)
    )
