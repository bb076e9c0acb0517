"""Members of a story name what they quote, and what quotes them."""

import random

import pytest
from service_world import world_in

from neardup_workers.outside.process.exits import Exit
from neardup_workers.outside.settings.serve import ServeSettings
from neardup_workers.outside.store.extra import quotes
from neardup_workers.outside.store.migrating import migrate
from neardup_workers.outside.store.salvage import salvage

PARTS = {"scheme": "parts", "threshold": 0.05, "keep_texts": True}
WORDS = [
    f"{a}{b}{c}" for a in ("mor", "tel", "vas", "kin") for b in ("ando", "ilum", "oper") for c in ("t", "ska", "", "y")
]


def text(seed, count=120):
    """Words that no other seed has in this order."""
    rng = random.Random(seed)
    return " ".join(rng.choice(WORDS) + str(rng.randrange(100)) for _ in range(count))


SPEECH = text(1)
REPORT = f"{text(2)} {' '.join(SPEECH.split()[30:70])} {text(3)}"
DIGEST = f"{SPEECH} {text(4, 200)}"


def shown(world, cluster):
    """What each member of a story quotes, and what quotes it: ids, stories and relations."""
    story = world.ask("GET", f"/v1/clusters/{cluster}").json()
    return {
        one["id"]: {
            name: [(other["id"], other["cluster"], other["relation"]) for other in one[name]]
            for name in ("quotes", "quoted_by")
            if name in one
        }
        for one in story["members"] + story["updates"]
    }


def filled(world):
    """A speech, a report that quotes it, a copy of the report, a digest that contains the speech, and another text."""
    documents = {"speech": SPEECH, "report": REPORT, "copy": REPORT, "digest": DIGEST, "other": text(9)}
    return {id_: world.check(id_, one, title=id_.title(), source="Wire")["cluster"] for id_, one in documents.items()}


@pytest.mark.parametrize("settings", [{}, {"collection_field": "collection"}])
def test_a_quote_is_named_by_both_stories(settings, tmp_path):
    """With title and source, also after a restart. A copy is of the story, and nothing that it quotes."""
    with world_in(tmp_path, **PARTS, **settings) as world:
        at = filled(world)
    with world_in(tmp_path, **PARTS, **settings) as world:
        assert len(set(at.values())) == 4
        assert shown(world, at["report"])["report"]["quotes"] == [("speech", at["speech"], "shares")]
        assert "quotes" not in shown(world, at["report"])["copy"]
        assert shown(world, at["digest"])["digest"]["quotes"][-1] == ("speech", at["speech"], "contains")
        by = shown(world, at["speech"])["speech"]
        assert by == {"quoted_by": [("digest", at["digest"], "contains"), ("report", at["report"], "shares")]}
        assert shown(world, at["other"]) == {"other": {}}
        [member] = world.ask("GET", f"/v1/clusters/{at['speech']}").json()["members"]
        assert (member["quoted_by"][0]["title"], member["quoted_by"][0]["source"]) == ("Digest", "wire")


def test_what_is_removed_or_hidden_is_named_no_more_and_what_is_moved_stays_named(tmp_path):
    """A removal leaves no name in either direction; a judged document has a new place."""
    with world_in(tmp_path, **PARTS) as world:
        at = filled(world)
        assert world.ask("POST", f"/v1/clusters/{at['digest']}?muted=true").status_code == 200
        assert shown(world, at["speech"])["speech"] == {"quoted_by": [("report", at["report"], "shares")]}
        assert world.ask("POST", "/v1/together?a=other&b=report").json()["cluster"] == at["report"]
        moved = world.ask("POST", "/v1/apart?a=copy&b=other").json()["cluster"]
        assert moved != at["report"]
        world.ask("DELETE", "/v1/documents/report")
        assert shown(world, at["speech"]) == {"speech": {}}
        world.check("later", REPORT.replace("mor", "sor"))
        world.ask("DELETE", "/v1/documents/speech")
        later = world.ask("GET", "/v1/documents/later").json()["cluster"]
        assert "speech" not in str(shown(world, later))


def test_a_document_that_a_person_moves_keeps_what_it_quotes(tmp_path):
    """Its row has another place."""
    with world_in(tmp_path, **PARTS) as world:
        at = filled(world)
        assert world.ask("POST", "/v1/together?a=digest&b=other").json() == {"id": "other", "cluster": at["digest"]}
        world.check("echo", f"{text(9)} {text(10, 10)}")
        echo = world.ask("GET", "/v1/documents/echo").json()["cluster"]
        [(id_, cluster, _)] = shown(world, echo)["echo"]["quotes"]
        assert (id_, cluster) == ("other", at["digest"])
        assert shown(world, at["digest"])["other"]["quoted_by"][0][0] == "echo"
        assert world.ask("POST", "/v1/apart?a=digest&b=other&replace=true").json()["cluster"] != at["digest"]
        place = world.ask("GET", "/v1/documents/other").json()["cluster"]
        assert shown(world, place)["other"]["quoted_by"][0][0] == "echo"


def test_copies_of_a_window_keep_what_quotes_what(tmp_path):
    """A salvaged one and one that is signed again; and rows leave with the window."""
    with world_in(tmp_path / "one", **PARTS) as world:
        at = filled(world)
        before = {id_: shown(world, cluster) for id_, cluster in at.items()}
    settings = ServeSettings(**PARTS)
    assert salvage(tmp_path / "one", settings.plan.width).lost == {}
    assert migrate(settings.model_copy(update={"threshold": 0.1}), tmp_path / "one", tmp_path / "two") == Exit.SUCCESS
    for folder, threshold in (("one", 0.05), ("two", 0.1)):
        with world_in(tmp_path / folder, **{**PARTS, "threshold": threshold}) as world:
            assert {id_: shown(world, cluster) for id_, cluster in at.items()} == before
            count = "SELECT count(*) FROM quotes"
            assert world.keeper.log.writer.execute(count).fetchone()[0] == 3
            with world.keeper.log.transaction():
                world.keeper.log.drop(1)
            assert world.keeper.log.writer.execute(count).fetchone()[0] == 1


def test_a_document_names_some_others_alone(tmp_path):
    """The newest of those that quote it."""
    with world_in(tmp_path, **PARTS) as world:
        world.check("speech", SPEECH)
        for n in range(quotes.QUOTES_MAX + 2):
            world.check(f"r{n}", f"{text(100 + n)} {' '.join(SPEECH.split()[:40])}")
        names = [one for one, *_ in shown(world, 0)["speech"]["quoted_by"]]
        assert names == [f"r{n}" for n in range(quotes.QUOTES_MAX + 1, 1, -1)]


def test_the_documents_that_are_named_cover_what_is_quoted(tmp_path):
    """Many that share the same part leave room for one that shares another part, however long it is."""
    with world_in(tmp_path, **PARTS) as world:
        world.check("speech", text(9, 2000))
        speech = " ".join(SPEECH.split()[:60])
        for n in range(quotes.QUOTES_MAX):
            world.check(f"r{n}", f"{text(100 + n)} {speech}")
        answer = world.check("digest", f"{speech} {text(4)} {' '.join(text(9, 2000).split()[:30])}")
        assert [pair["id"] for pair in answer["pairs"]].index("speech") == 2
        named = [one for one, *_ in shown(world, answer["cluster"])["digest"]["quotes"]]
        assert "speech" in named
