"""What the service does now and did in the last hour; the page's files; what the page asks for."""

import asyncio
import json

import pytest
from service_world import NEAR, TEXT, world_in
from starlette.requests import Request

from neardup_workers.doing.http.figures import STEP_SECONDS, STEPS, Figures

TOKEN = "a-token-of-enough-characters"


class Clock:
    """A clock that tests set."""

    def __init__(self):
        self.now = 1_700_000_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def figures(clock):
    return Figures(lambda: 7, lambda: 0, clock)


@pytest.fixture
def world(tmp_path):
    with world_in(tmp_path / "state", keep_texts=True) as world:
        yield world


def verdicts(originals, duplicates):
    statuses = ["original"] * originals + ["duplicate"] * duplicates
    return [{"id": f"d{n}", "place": n, "status": status, "duplicate_of": None} for n, status in enumerate(statuses)]


def test_without_documents_there_is_no_fraction_and_no_time(figures):
    """A rate is zero; what has no value is ``None``."""
    present = figures.present()
    assert (present["documents_per_second"], present["window_documents"]) == (0.0, 7)
    assert [present[name] for name in ("duplicate_fraction", "seconds_median", "seconds_p99")] == [None] * 3


def test_rates_follow_the_last_seconds_and_fractions_the_last_minute(figures, clock):
    """After a minute without documents only the totals are left."""
    for _ in range(5):
        figures.count(verdicts(75, 25))
        figures.observe(0.004)
        clock.now += 1
    clock.now -= 1
    present = figures.present()
    assert (present["documents_per_second"], present["duplicate_fraction"], present["documents"]) == (100.0, 0.25, 500)
    assert present["seconds_median"] == pytest.approx(0.004, rel=0.13)
    clock.now += 10
    assert figures.present()["documents_per_second"] == 0.0
    assert figures.present()["duplicate_fraction"] == 0.25
    clock.now += 70
    assert figures.present()["duplicate_fraction"] is None
    assert figures.present()["documents"] == 500


def test_the_history_is_an_hour_and_forgets_what_is_older(figures, clock):
    """Memory does not grow: a step that returns after an hour is empty."""
    figures.count(verdicts(10, 0))
    for _ in range(STEPS + 40):
        clock.now += STEP_SECONDS
        figures.count(verdicts(1, 2))
    history = figures.history()
    assert {len(history[name]) for name in ("documents", "duplicates", "seconds_median", "window_documents")} == {STEPS}
    assert set(history["documents"]) == {3}
    assert set(history["duplicates"]) == {2}
    assert history["first_time"] + STEP_SECONDS * (STEPS - 1) <= clock.now
    clock.now += 10 * STEP_SECONDS * STEPS
    assert set(figures.history()["documents"]) == {0}


@pytest.mark.long
def test_the_stream_of_figures_names_the_latest_duplicates_and_not_the_removed(world):
    """With the first words of their texts; a reader of figures is never too slow."""

    async def run():
        scope = {"type": "http", "method": "GET", "query_string": b"of=figures", "headers": []}
        body = world.events.response(Request(scope)).body_iterator
        await anext(body)
        found = []
        for ask in (("POST", "/v1/check"), ("DELETE", "/v1/documents/b")):
            body_of = {"json": {"id": "b", "text": NEAR}} if ask[0] == "POST" else {}
            await asyncio.to_thread(world.ask, *ask, **body_of)
            goal = [] if ask[0] == "DELETE" else ["b"]
            while True:
                event = (await anext(body)).decode()
                latest = json.loads(event.partition("data: ")[2])["latest"]
                if [one["id"] for one in latest] == goal:
                    break
            found.append(latest)
        await body.aclose()
        return found

    world.check("a", TEXT)
    [shown, _] = asyncio.run(run())
    assert (shown[0]["duplicate_of"], shown[0]["preview"]) == ("a", NEAR)
    assert world.events.readers == 0


def test_clusters_have_previews_strips_and_pages_of_members(tmp_path):
    """The strip counts each member; the pages together are the cluster."""
    with world_in(tmp_path, keep_texts=True, clock="event") as world:
        _show_clusters(world)


def _show_clusters(world):
    for n in range(7):
        world.check(f"d{n}", TEXT, timestamp=1_690_000_000.0 + 100 * n)
    [cluster] = world.ask("GET", "/v1/clusters?strip=true").json()["clusters"]
    assert (cluster["preview"], cluster["others"]) == (TEXT, ["d1", "d2", "d3", "d4"])
    assert (sum(cluster["strip"]), cluster["strip"][0], cluster["strip"][-1]) == (7, 1, 1)
    members, after = [], -1
    while after is not None:
        page = world.ask("GET", f"/v1/clusters/0?limit=3{'' if after < 0 else f'&after={after}'}").json()
        members, after = members + [member["id"] for member in page["members"]], page["next"]
    assert members == [f"d{n}" for n in range(7)]
    assert page["updates"] == []
    for n in range(2):
        assert world.check("d0", f"{TEXT} Corrected {n}.")["status"] == "update"
    found = world.ask("GET", "/v1/clusters/0").json()
    assert [(update["id"], update["place"], update["matched"]) for update in found["updates"]] == [
        ("d0", 8, 7), ("d0", 7, 0)
    ]  # fmt: skip
    assert (found["size"], len(found["members"])) == (7, 7)


def test_the_chance_at_the_threshold_is_the_one_of_the_law(tmp_path):
    """No step of the curve stands in for it: just below the least score the chance is 0."""
    with world_in(tmp_path / "state", threshold=0.55, verify="exact") as world:
        shown = world.ask("GET", "/v1/figures").json()["settings"]
    (threshold, at), (beyond, more) = shown["chances"]
    assert (threshold, beyond, shown["score_min"]) == (0.55, 0.65, 0.55)
    assert 0.9 < at < more <= 1
    assert len(shown["curve"]) == 101


def test_a_decision_without_a_pair_of_the_two_is_explained(tmp_path):
    """A probe reads one candidate; the others are compared because a pair led to their cluster."""
    with world_in(tmp_path / "state", probe_candidates_max=1, threshold=0.7) as world:
        for n in range(6):
            answer = world.check(str(n), TEXT.replace("Friday", f"{n} May"))
            assert answer["duplicate_of"] == (None if n == 0 else "0")
        reasons = {world.ask("GET", f"/v1/why?a=0&b={n}").json()["reason"] for n in range(1, 6)}
    assert reasons == {"pair", "decided"}


def test_a_look_names_the_nearest_and_a_text_is_explained_without_being_added(world):
    """Below the least score too; a scheme that cannot rank says so."""
    world.check("a", TEXT)
    far = TEXT[:60] + " but quarterly earnings of the company were flat, said its chairman on the phone."
    answer = world.check("q", far, "?add=false&nearest=5")
    assert answer["pairs"] == []
    assert [one["id"] for one in answer["nearest"]] in ([], ["a"])
    assert [one["id"] for one in world.check("q", NEAR, "?add=false&nearest=5")["nearest"]] == ["a"]
    why = world.ask("POST", "/v1/why?b=a", json={"id": "q", "text": NEAR}).json()
    assert (why["older"], why["newer"], why["reason"]) == ("a", "q", "pair")
    assert [passage["text"] for passage in why["passages"] if passage["kind"] != "both"] == ["Sunday", "Monday"]
    assert world.ask("POST", "/v1/why", json={"id": "q", "text": NEAR}).json()["field"] == "b"
    assert world.ask("GET", "/v1/documents/q").status_code == 404


def test_the_page_needs_no_token_and_has_no_data(tmp_path):
    """It may run its own scripts alone; its data need the token; no path leads out of its folder."""
    with world_in(tmp_path, token=TOKEN) as world:
        for path in ("/", "/docs", "/page/main.js", "/page/style.css"):
            answer = world.ask("GET", path)
            assert answer.status_code == 200, path
            policy = dict(rule.split(" ", 1) for rule in answer.headers["content-security-policy"].split("; "))
            assert (policy["default-src"], policy["script-src"], policy["style-src"]) == ("'none'", "'self'", "'self'")
            assert "http://" not in answer.text.replace("http://www.w3.org/2000/svg", "")
            assert "https://" not in answer.text.replace("https?:", "")
        for path in ("/v1/figures", "/v1/events", "/openapi.json"):
            assert world.ask("GET", path).status_code == 401, path
        for path in ("/page/__init__.py", "/page/..%2Fapp.py", "/page/"):
            assert world.ask("GET", path).status_code in (401, 404), path
