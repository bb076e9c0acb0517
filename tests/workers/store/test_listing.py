"""Lists page by page: every row once, also while documents come, and what filters and searches find."""

import random

import pytest
from quick_parameters import quick_first
from service_world import NOW, TEXT, world_in

from neardup_workers.outside.store.extra.words import WAITING_MAX
from neardup_workers.outside.store.listing import DOCUMENT_ORDERS, STORY_ORDERS

WORDS = [f"{stem}{number}" for stem in ("rain", "tree", "coast", "ferry") for number in range(50)]


@pytest.fixture
def world(tmp_path):
    with world_in(tmp_path, keep_texts=True, clock="event") as world:
        yield world


def _story(number):
    rng = random.Random(number)
    return " ".join(rng.choice(WORDS) for _ in range(40))


def _add(world, stories, seed):
    """Documents of some stories, at random."""
    rng = random.Random(seed)
    for n in range(40):
        story = rng.choice(stories)
        time = NOW - 4000 + 50 * n + seed
        answer = world.check(f"s{story}-{seed}-{n}", _story(story), timestamp=time)
        assert answer.get("status") in ("original", "duplicate"), answer


def _pages(world, path, between=lambda: None, **query):
    """The pages of a list; ``between`` is called after each."""
    cursor, pages = None, []
    while True:
        asked = {**query, **({"cursor": cursor} if cursor else {})}
        page = world.ask("GET", path, params=asked).raise_for_status().json()
        pages.append(page["clusters" if "clusters" in page else "documents"])
        cursor = page["next"]
        if cursor is None:
            return pages
        between()


@pytest.mark.long
@pytest.mark.parametrize("order", quick_first([*STORY_ORDERS], 1))
def test_pages_of_stories_have_each_story_once_while_documents_come(world, order):
    """No story is on two pages, and each story that did not change meanwhile is on one."""
    _add(world, range(12), 1)
    before = {one["cluster"]: one["size"] for one in _pages(world, "/v1/clusters", limit=1000, sort=order)[0]}
    assert len(before) > 8
    seeds = iter(range(2, 100))
    seen = [
        one["cluster"]
        for page in _pages(world, "/v1/clusters", lambda: _add(world, range(4), next(seeds)), limit=2, sort=order)
        for one in page
    ]
    assert sorted(seen) == sorted(set(seen))
    after = {one["cluster"]: one["size"] for one in _pages(world, "/v1/clusters", limit=1000)[0]}
    assert before.keys() <= after.keys()
    assert {cluster for cluster, size in before.items() if after[cluster] == size} - set(seen) == set()
    assert any(after[cluster] > size for cluster, size in before.items())


@pytest.mark.parametrize("order", DOCUMENT_ORDERS)
def test_pages_of_documents_have_each_document_once(world, order):
    """In the order of arrival or backwards; a page looks at a limited number of rows, and the next one goes on."""
    _add(world, range(12), 1)
    pages = _pages(world, "/v1/documents", lambda: world.check("more", TEXT), sort=order, limit=7)
    places = [one["place"] for page in pages for one in page]
    assert places == sorted(set(places), reverse=order == "newest")
    assert set(range(40)) <= set(places)


def test_a_page_that_finds_little_ends_early_and_continues(world, monkeypatch):
    """The rows that a page looks at are bounded."""
    monkeypatch.setattr("neardup_workers.outside.store.listing._LOOKS_MAX", 10)
    _add(world, range(12), 1)
    pages = _pages(world, "/v1/documents", status="original", limit=5)
    assert len(pages) > 3
    expected = [one for page in _pages(world, "/v1/documents", limit=5) for one in page if one["status"] == "original"]
    assert [one for page in pages for one in page] == expected


def test_stories_are_ordered_by_size_age_and_growth(world):
    """A story that grows now comes before one that grew more yesterday, and has the most copies by size."""
    for n in range(9):
        world.check(f"old{n}", _story(1), timestamp=NOW - 90_000 + n)
    for n in range(3):
        world.check(f"now{n}", _story(2), timestamp=NOW + n)
    world.check("quiet", _story(3), timestamp=NOW + 5)
    world.check("quiet2", _story(3), timestamp=NOW + 6)
    sizes = {order: [one["size"] for one in _pages(world, "/v1/clusters", sort=order)[0]] for order in STORY_ORDERS}
    assert sizes == {"size": [9, 3, 2], "recent": [2, 3, 9], "growth": [3, 2, 9], "newest": [2, 3, 9]}


def test_stories_are_found_by_word_id_time_and_size(world):
    """Words of the first document and of its updates, without accents, in any script; and the beginning of an id."""
    texts = {
        "https://harbour-post.example/storm": TEXT,
        "café": "Das Café Größenwahn öffnet am Montag wieder, und die Gäste bekommen ein Stück Kuchen umsonst dazu. "
        "Die Wirtin hat die Stühle ihres Großvaters neu bezogen und spielt an den Abenden selbst am Klavier.",
        "ar": "تبقى العبّارات على طول الساحل الشمالي في الميناء حتى يوم الأحد، وتتوقّع هيئة الأرصاد رياحًا قوية",
        "ja": "東京の図書館は来週の金曜日から夜十時まで開館し、子どもたちのための読み聞かせも行われる予定です。",
    }
    then = NOW - 1000
    for n, (id_, text) in enumerate(texts.items()):
        world.check(id_, text, timestamp=then + 100 * n)
        world.check(f"{id_}-copy", text, timestamp=then + 100 * n + 10)
    world.check("café", texts["café"].replace("Montag", "Dienstag"), timestamp=then + 400)

    def found(**query):
        clusters = world.ask("GET", "/v1/clusters", params={"sort": "newest", **query}).raise_for_status().json()
        return [one["representative"] for one in clusters["clusters"]][::-1]

    storm = "https://harbour-post.example/storm"
    assert found(q="FERRIES northern") == found(q="harbour-post") == found(q="ferr") == [storm]
    assert found(q="https://harbour-post.example/storm-c") == [storm]
    assert found(q="ferries nowhere") == found(q="fer ") == []
    assert found(q="cafe grossenwahn") == found(q="Café") == found(q="Montag Kuchen") == found(q="Dienstag") == ["café"]
    assert found(q="العبارات الميناء") == found(q="العبّارات") == ["ar"]
    assert found(q="図書館") == ["ja"]
    assert found(q="-") == found(q='"') == []
    assert found(q="coast NOT rain") == [storm], "a search has words, and no operators"
    assert found(since=then + 205, until=then + 299) == ["ar"]
    assert found(size_min=1, size_max=1) == []
    world.check("mirror", texts["ja"], timestamp=then + 500, source="Asahi", title="図書館")
    assert found(q="asahi") == found(source="ASAHI") == found(source="asahi", q="東京") == ["ja"]
    assert found(source="asahi", q="ferries") == found(source="another") == []
    assert [one["id"] for one in world.ask("GET", "/v1/documents?source=asahi").json()["documents"]] == ["mirror"]
    assert [one["id"] for one in world.ask("GET", "/v1/documents?q=dienstag").json()["documents"]] == ["café"]


def test_a_story_says_over_which_time_its_documents_are_dated(tmp_path):
    """With times of arrival too, which are within a second for what is dated over hours."""
    with world_in(tmp_path / "arrival") as world:
        cluster = world.check("a", TEXT, timestamp=NOW - 8 * 3600)["cluster"]
        world.check("b", f"{TEXT} b", timestamp=NOW - 3600)
        listed = world.ask("GET", "/v1/clusters").json()["clusters"]
        for story in (world.ask("GET", f"/v1/clusters/{cluster}").json(), *listed):
            assert (story["first_date"], story["last_date"]) == (NOW - 8 * 3600, NOW - 3600)
            assert story["first_time"] == story["last_time"] == NOW


def test_titles_of_copies_and_stories_without_their_first_article_are_found(world):
    """Any headline of a story finds it; after a takedown of the first article its words are those of the next one."""
    for n, title in enumerate((None, "Storm wrapup", None, "Evening wrapup")):
        world.check(f"d{n}", f"{TEXT} {n}", title=title)
    world.check("d2", f"{TEXT} 2")
    found = lambda q: [one["representative"] for one in world.ask("GET", f"/v1/clusters?q={q}").json()["clusters"]]  # noqa: E731
    assert found("wrapup") == found("evening") == found("ferries") == ["d0"]
    world.ask("DELETE", "/v1/documents/d0").raise_for_status()
    assert found("wrapup") == found("ferries") == ["d1"]
    world.ask("DELETE", "/v1/documents/d1").raise_for_status()
    assert (found("storm"), found("ferries"), found("evening")) == ([], ["d2"], ["d2"])
    for id_ in ("d2", "d3"):
        world.ask("DELETE", f"/v1/documents/{id_}").raise_for_status()
    assert found("wrapup") == found("ferries") == []


def test_a_search_regards_the_newest_documents_if_too_many_have_the_word(world, monkeypatch):
    """The others are left out, so a search takes limited time."""
    monkeypatch.setattr("neardup_workers.outside.store.listing.MATCHES_MAX", 5)
    for n in range(2 * WAITING_MAX):  # none waits
        world.check(f"d{n}", f"ferry {_story(n)}")
    found = world.ask("GET", "/v1/clusters?q=ferry&size_min=1").json()["clusters"]
    assert [one["representative"] for one in found] == [f"d{n}" for n in range(31, 26, -1)]


def test_what_no_list_takes_is_refused_by_name(world):
    """The field, the rule and the remedy."""
    refused = (
        ("/v1/clusters?cursor=x", "cursor"), ("/v1/clusters?since=yesterday", "since"),
        ("/v1/clusters?until=nan", "until"), ("/v1/clusters?sort=name", "sort"), ("/v1/documents?status=new", "status"),
        (f"/v1/clusters?q={'a' * 201}", "q"), ("/v1/documents?near=true", "id"), ("/v1/documents?id=", "id"),
    )  # fmt: skip
    for path, field in refused:
        response = world.ask("GET", path)
        status = 409 if "near" in path else 422  # each parameter is right, but not both without an id
        assert (response.status_code, response.json()["field"]) == (status, field), path
