"""Every explanation of every member of every story on real sets, against what the service answered at the time."""

import json
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
    answers, contents = {}, {}
    for document in found:
        [answer] = keeper.check([document])
        if answer.refused is None:
            answers[document.id] = answer
            contents[answer.verdict["place"]] = (document.id, document.text)
    reasons, wrong = {}, []
    for id_, answer in answers.items():
        if answer.verdict["status"] != "duplicate" or answer.verdict["duplicate_of"] in (None, id_):
            continue
        why = keeper.why(answer.verdict["duplicate_of"], id_)
        reasons[why.reason] = reasons.get(why.reason, 0) + 1
        if not _is_true(why, answer, answers, contents):
            wrong.append((why, answer))
    keeper.log.close()
    assert reasons.get("pair", 0) > 20
    assert not wrong, f"{len(wrong)} of {sum(reasons.values())} ({reasons}), such as {wrong[:3]}"


def _is_true(why, answer, answers, contents):
    verdict = answer.verdict
    original = verdict["duplicate_of"]
    if why.reason == "pair":
        emitted = [(pair.older, pair.similarity) for pair in answer.pairs]
        emitted += [(original, pair.similarity) for pair in answers[original].pairs if pair.older == answer.id]
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
