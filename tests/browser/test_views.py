"""The views of stories, sources and feeds; and every view with axe, on every width, in both directions of writing."""

import itertools
import json
import time
from hashlib import sha256

import pytest
from axe import findings
from devtools import Browser
from news import documents
from open_page import ENTER, TOKEN, Page
from service_process import Serving

NOW = time.time()
LONG = [
    "The museum of clocks opens again on Friday after a year of repairs, with a tower clock that has one hand alone.",
    "A ferry with forty cars left the harbour at dawn, because the tide was higher than in any year before this one.",
    "Two choirs of the valley sing on the old bridge tonight, and the council has closed the road for all who listen.",
]  # fmt: skip
CLOCKS = (
    "The museum of clocks opens again on Friday after a year of repairs, with a tower clock that has one hand alone."
)
FRENCH = "a-token-of-the-french-desk"
HOLDERS = [
    {"name": "all", "sha256": sha256(TOKEN.encode()).hexdigest(), "roles": ["admin"]},
    {"name": "french", "sha256": sha256(FRENCH.encode()).hexdigest(), "roles": ["read"], "collections": ["fr"]},
]
TITLES = "[...document.querySelectorAll('.card h2')].map((one) => one.innerText)"
BUSY = "document.querySelector('main').getAttribute('aria-busy') === 'false'"
FEEDS = [
    {"url": "https://harbour-post.example/feed.xml", "failures": 0, "succeeded": NOW - 50, "asked": NOW - 50,
     "brought": NOW - 500, "status": 200, "gap_seconds": 900, "wait_seconds": 300},
    {"url": "javascript:alert(1)//", "failures": 4, "asked": NOW - 10, "status": 500, "reason": "http_error"},
]  # fmt: skip


@pytest.fixture(scope="module")
def filled(page):
    """The page with an hour of news that have sources, addresses and titles; a story in Arabic is among them."""
    rows = [
        {**one, "id": f"{one['id']}-v", "url": one["id"], "title": " ".join(one["text"].split()[:7]),
         "timestamp": NOW - 3600 + 6 * n}
        for n, one in enumerate(itertools.islice(documents(5), 500))
    ]  # fmt: skip
    answers = page.check_all(rows)
    page.browser.open(f"{page.url}/#/now")
    page.browser.wait("document.getElementById('live')?.dataset.state === 'live'")
    page.client.post("/v1/feeds", json={"feeds": FEEDS}).raise_for_status()
    page.story = next(one["cluster"] for one in answers if one["status"] == "duplicate" and "coast-storm" in one["id"])
    page.arabic = next(one["cluster"] for one in answers if one["status"] == "duplicate" and "مكتبة" in one["id"])
    first, second = (one["id"] for one in page.client.get(f"/v1/clusters/{page.story}").json()["members"][:2])
    page.views = (
        "now", "stories", "stories?q=ferries&sort=growth", f"story/{page.story}", f"story/{page.arabic}", "sources",
        "source/harbour-post.example", "feeds", "judge", f"pair?a={first}&b={second}", "ask",
    )  # fmt: skip
    return page


def test_axe_finds_nothing_in_any_view(filled, axe):
    """In both colours, and on the narrowest screen."""
    found = {}
    for look in ({}, {"dark": True}, {"width": 320, "height": 640}):
        filled.browser.look(**look)
        for view in filled.views:
            filled.show(view, BUSY)
            found[view, str(look)] = findings(filled.browser, axe)
    filled.browser.look()
    assert {name: rules for name, rules in found.items() if rules} == {}


def test_every_view_fits_from_320_pixels_to_4k(filled):
    """Nothing is wider than the window."""
    for width, height in ((320, 640), (768, 1024), (3840, 2160)):
        filled.browser.look(width=width, height=height)
        for view in filled.views:
            filled.show(view, BUSY)
            assert filled.browser.wait("document.documentElement.scrollWidth <= innerWidth"), (view, width)
    filled.browser.look()


def test_stories_are_found_by_word_and_source_and_listed_page_by_page(filled):
    """The address has the search, so it can be kept; the next page has other stories."""
    cards = "[...document.querySelectorAll('.card h2')].map((one) => one.innerText)"
    first = filled.show("stories", f"document.querySelector('.card') && {cards}")
    filled.browser.evaluate("""(() => {
        document.querySelector('.search [name=q]').value = 'sleeping cars';
        document.querySelector('.search [name=source]').value = 'north-star.example';
        document.querySelector('.search button').click();
    })()""")
    filled.browser.wait("location.hash.includes('q=sleeping+cars')")
    [found] = filled.browser.wait(f"{BUSY} && document.querySelectorAll('.card').length === 1 && {cards}")
    assert found.startswith("Night trains between Marlow")
    assert found in first
    assert "No story is like that" in filled.show(
        "stories?q=zebra", "document.querySelector('.notice.empty')?.innerText"
    )
    every = filled.client.get("/v1/clusters", params={"limit": 1000}).json()["clusters"]
    filled.show("stories?size=&sort=newest", "document.querySelector('.card')")
    assert (len(every) > 24) == filled.browser.evaluate("Boolean(document.querySelector('.turn a'))")


def test_related_stories_of_one_headline_are_one_card(page):
    """A new version far from its story begins another one; a story of the same headline that is not related stays."""
    named = {"title": "One headline", "source": "headlines"}
    ids = ("c1", "c2", "c1", "c3", "c4", "c5")
    rows = [{"id": id_, "text": LONG[n // 2], **named} for n, id_ in enumerate(ids)]
    answers = [page.client.post("/v1/check", json=one).json() for one in rows]
    assert answers[2]["related"] == answers[0]["cluster"]
    page.browser.open(f"{page.url}/#/now")
    cards = "[...document.querySelectorAll('.card')].map((card) => card.querySelectorAll('.same a').length)"
    found = page.show("stories?source=headlines", f"document.querySelectorAll('.card').length && {cards}")
    assert sorted(found) == [0, 1]


def test_a_story_names_its_sources_links_its_articles_and_is_a_file(filled):
    """Links have an address of http or https and say nothing of this page; the files have every member."""
    filled.show(f"story/{filled.story}", "document.querySelector('.members li')")
    links = filled.browser.evaluate(
        "[...document.querySelectorAll('.members a[target]')].map((link) => [link.protocol, link.rel])"
    )
    assert links
    assert {tuple(link) for link in links} == {("https:", "noopener noreferrer nofollow")}
    assert "harbour-post.example" in filled.browser.evaluate("document.querySelector('.members').innerText")
    filled.browser.evaluate("""(() => {
        window.made = [];
        URL.createObjectURL = (blob) => { window.made.push(blob); return 'data:,'; };
        HTMLAnchorElement.prototype.click = () => {};
        for (const button of document.querySelectorAll('.exports button')) button.click();
    })()""")
    files = filled.browser.evaluate(
        "new Promise((resolve) => { const look = () => window.made.length === 2 "
        "? resolve(Promise.all(window.made.map((blob) => blob.text()))) : setTimeout(look, 20); look(); })"
    )
    story = json.loads(next(text for text in files if text.startswith("{")))
    lines = next(text for text in files if not text.startswith("{")).splitlines()
    size = filled.client.get(f"/v1/clusters/{filled.story}").json()["size"]
    assert len(story["members"]) == len(lines) - 1 == size
    filled.browser.open(f"{filled.url}/#/now")
    filled.browser.reload()
    filled.browser.wait("document.getElementById('live')?.dataset.state === 'live'")


def test_sources_show_who_was_first_and_a_source_its_day(filled):
    """Both orders, by arrival and by date; a source leads to its stories."""
    text = filled.show("sources", "document.querySelector('tbody')?.innerText")
    assert "harbour-post.example" in text
    head = filled.browser.evaluate("document.querySelector('thead').innerText")
    assert "First by arrival" in head
    assert "First by date" in head
    facts = filled.show("source/harbour-post.example", "document.querySelector('.account')?.innerText")
    assert "Lag by arrival" in facts
    assert filled.browser.evaluate("document.querySelector('main .quiet a').hash").endswith(
        "source=harbour-post.example"
    )


def test_feeds_show_the_worst_first_and_link_no_script(filled):
    """An address that is not of http or https is text."""
    text = filled.show("feeds", "document.querySelector('tbody')?.innerText")
    assert text.index("javascript:") < text.index("harbour-post")
    assert filled.browser.evaluate("[...document.querySelectorAll('tbody a')].map((link) => link.protocol)") == [
        "https:"
    ]


def test_now_shows_what_was_refused_and_a_scale_on_each_curve(filled):
    """By reason, since the start; no figure that never changes has a curve."""
    filled.client.post("/v1/check", json={"id": "empty", "text": " "})
    strip = "document.querySelector('.operation')?.innerText"
    shown = filled.show("now", f"/empty \\d/.test({strip}) && {strip}")
    assert "Last checkpoint" in shown
    scales = "[...document.querySelectorAll('.tile .scale')].map((one) => one.innerText)"
    filled.browser.wait(f"{scales}.filter((one) => one.startsWith('up to ')).length >= 2")


def test_a_person_who_judges_pairs_by_keys_gets_a_threshold(filled):
    """With an interval, as a setting; marks of one kind give none."""
    text, result = (f"document.querySelector('{one}')?.innerText" for one in (".judge .quiet", ".result"))
    filled.show("judge", f"{text}?.startsWith('Pair 1 of ') && document.querySelector('.judge .marking')")
    for n in range(12):
        said = filled.browser.wait(f"{text}?.startsWith('Pair {n + 1} of ') && {text}")
        key = "1" if float(said.split()[-1]) > 0.9 else "0"
        filled.browser.press(key, ord(key))
    shown = filled.browser.wait(f"{result}?.includes('12 marked') && {result}")
    kinds = "import('/page/judge.js').then(({ interval }) => interval(%s, () => 0.37))"
    middle, low, high = filled.browser.evaluate(kinds % [[s / 100, int(s > 72)] for s in range(50, 100)])
    assert middle == pytest.approx(0.725)
    assert low <= high
    assert ("threshold = " in shown) or ("of both kinds" in shown)


def test_no_view_has_an_error_or_breaks_the_policy(filled):
    """No exception and no refusal of the content policy, after all of the above."""
    assert filled.browser.events["Runtime.exceptionThrown"] == []
    entries = [entry["entry"]["text"] for entry in filled.browser.events["Log.entryAdded"]]
    assert [text for text in entries if "Content Security Policy" in text or "TrustedHTML" in text] == []


@pytest.fixture
def separate(tmp_path_factory, chromium):
    """The page after the same two documents of two sources came in two collections, and in none."""
    state = tmp_path_factory.mktemp("state")
    (state / "tokens").write_text("\n".join(json.dumps(one) for one in HOLDERS))
    serving = Serving(
        state, "--durability", "normal", "--keep-texts", "--fields", "collection=lang", "--token-file", state / "tokens"
    )  # fmt: skip
    browser = Browser(chromium, tmp_path_factory.mktemp("browser"))
    try:
        page = Page(browser, serving)
        page.check_all(
            [
                {"id": id_, "text": CLOCKS + end, "lang": name, "title": f"Clocks {name}", "source": f"the {id_} post"}
                for id_, end in (("a", ""), ("b", " Entry is free."))
                for name in ("en", "fr", None)
            ]
        )
        _enter(browser, f"{serving.url}/#/stories", TOKEN)
        yield page
        page.client.close()
    finally:
        browser.close()
        serving.kill()


def test_stories_are_filtered_by_collection_and_compared_within_it(separate):
    """The filter shows where documents have collections, also those of none; the address of a pair names that of both.
    A card says how many sources tell the story."""
    separate.browser.wait(f"{TITLES}.length === 3 && !document.querySelector('form.search').elements.collection.hidden")
    separate.show("stories?collection=fr", f"{TITLES}.length === 1")
    assert separate.browser.evaluate(TITLES) == ["Clocks fr"]
    assert separate.browser.evaluate("document.querySelector('form.search').elements.collection.value") == "fr"
    assert separate.browser.evaluate("document.querySelector('.card .counted').innerText") == "from 2 sources"
    assert separate.browser.evaluate("[...document.querySelectorAll('.chip')].map((one) => one.innerText)") == [
        "fr",
        "the b post",
    ]
    separate.show("stories", f"{TITLES}.length === 3")
    separate.browser.evaluate("document.querySelector('form.search').elements.none.click()")
    separate.browser.wait(f"location.hash.includes('none=1') && {TITLES}.join() === 'Clocks None'")
    assert separate.browser.evaluate("document.querySelector('form.search').elements.none.checked")
    [story] = separate.client.get("/v1/clusters?collection=fr").json()["clusters"]
    link = "[...document.querySelectorAll('.members a')].find((one) => one.hash.startsWith('#/pair'))?.hash"
    address = separate.show(f"story/{story['cluster']}", link)
    assert "collection=fr" in address
    said = separate.show(address.removeprefix("#/"), "document.querySelector('.pair .verdict')?.innerText")
    assert said.startswith("They are a pair"), json.dumps(said)
    _see_one_collection(separate)
    _say_that_two_are_apart(separate, address)


def _see_one_collection(page):
    """A token of a collection sees its stories, compares and asks in it, and no request of the page is refused."""
    page.browser.evaluate("sessionStorage.clear()")
    page.browser.open("about:blank")
    _enter(page.browser, f"{page.url}/", FRENCH)
    assert page.browser.wait(f"{TITLES}.length === 1 && {TITLES}") == ["Clocks fr"]
    page.browser.wait("document.getElementById('live').dataset.state === 'closed'")
    shown = "[...document.querySelectorAll('nav a')].filter((one) => one.offsetParent).map((one) => one.innerText)"
    assert page.browser.evaluate(shown) == ["Stories", "Pair", "Ask", "Judge"]
    assert page.ask(f"{CLOCKS} Entry is dear.", "a").startswith("It is near")
    assert "They are" in page.browser.evaluate("[...document.querySelectorAll('.answers .verdict')].at(-1).innerText")
    page.show("judge", "document.querySelector('.judge .marking')")
    page.show("sources", f"{TITLES}.length === 1")
    errors = page.client.get("/v1/figures").json()["operation"]["client_errors"]
    assert errors == 2  # the first request of each visit, without a token


def _say_that_two_are_apart(page, address):
    """The mark of a pair is made to hold; the opposite is refused with both."""
    page.browser.evaluate("sessionStorage.clear()")
    page.browser.open("about:blank")
    _enter(page.browser, f"{page.url}/{address}", TOKEN)
    said = "document.querySelector('.marking .said')?.innerText"
    for mark, answer in (("different", "and so are later copies"), ("duplicate", "Before: apart at")):
        page.browser.wait("document.querySelector('.marking [data-mark]')")
        page.browser.evaluate(f"document.querySelector('.marking [data-mark={mark}]').click()")
        page.browser.evaluate("document.querySelector('.marking button.link').click()")
        page.browser.wait(f"{said}?.includes({json.dumps(answer)})")
    assert len(page.client.get("/v1/audit").json()["audit"]) == 1


def _enter(browser, address, token):
    browser.open(address)
    browser.wait("document.querySelector('dialog')?.open")
    browser.evaluate(f"""(() => {{
        document.getElementById('token-value').value = '{token}';
        document.querySelector('#token-form button').click();
    }})()""")


def test_a_pair_of_passages_marks_them_in_both_texts(tmp_path_factory, chromium, axe):
    """What both texts have is marked in each, what only one has is not; markup in a text is text; axe finds nothing."""
    state = tmp_path_factory.mktemp("state")
    serving = Serving(state, "--durability", "normal", "--keep-texts", "--scheme", "passages")
    browser = Browser(chromium, tmp_path_factory.mktemp("browser"))
    try:
        page = Page(browser, serving)
        report = f"<b>{' '.join(LONG)}</b>"
        before, after = "Other words <script>document.title='owned'</script> stand here", "The end is near. " * 9
        article = f"{before} {report.upper()} {after}"
        page.check_all([{"id": "report", "text": report}, {"id": "article", "text": article}])
        browser.open(f"{serving.url}/#/stories")
        marks = "[...document.querySelectorAll('.sides mark')].map((one) => one.innerText)"
        page.show("pair?a=report&b=article", f"{marks}.length === 2")
        first, later = browser.evaluate(marks)
        assert report == first
        assert report.upper() == later.strip()
        assert browser.evaluate("document.querySelectorAll('.sides del, .sides ins, main script').length") == 0
        assert "of the later text" in browser.evaluate("document.querySelector('.facts').innerText")
        assert "letter by letter" in browser.evaluate("document.querySelector('mark').title")
        assert browser.evaluate("document.title") != "owned"
        assert findings(browser, axe) == []
        assert browser.events["Runtime.exceptionThrown"] == []
        entries = [entry["entry"]["text"] for entry in browser.events["Log.entryAdded"]]
        assert [text for text in entries if "Content Security Policy" in text or "TrustedHTML" in text] == []
        page.client.close()
    finally:
        browser.close()
        serving.kill()


def test_what_was_just_found_and_asked_has_sources_titles_and_tabs(page):
    """Names and headlines come before hosts of ids; a headline and a sentence find what has their words."""
    text = "The observatory on the hill shows the comet tonight, and the tram runs until two in the morning. "
    for n, name in enumerate(("Hill Courier", "Valley Gazette")):
        id_, title = f"https://xn--{n}.example/c", f"Comet night {n}"
        document = {"id": id_, "text": f"{text * 3}{n}", "title": title, "source": name}
        cluster = page.client.post("/v1/check", json=document).raise_for_status().json()["cluster"]
    rows = "[...document.querySelectorAll('.latest li')]"
    row = page.show("now", f"{rows}.find((one) => one.innerText.includes('Comet'))?.innerText")
    assert "valley gazette also in hill courier" in row.lower()
    page.ask("comet night 1")
    found = page.browser.evaluate("[...document.querySelectorAll('.answers li')].map((one) => one.innerText)")
    assert any("Comet night 1" in one and "valley gazette" in one.lower() for one in found)
    page.show(f"story/{cluster}", "document.title.startsWith('Comet night 0')")
    hosts = ["xn--bcher-kva.example", "xn--e1afmkfd.x", "xn--fsqu00a.x", "xn--ngbc5azd.x", "xn--pple-43d.x", "xn--0.x"]
    shown = f"import('/page/dom.js').then((dom) => {json.dumps(hosts)}.map(dom.shownSource))"
    assert page.browser.evaluate(shown) == ["bücher.example", "пример.x", "例子.x", "شبكة.x", *hosts[-2:]]


def test_sources_are_searched_sorted_and_stay_under_the_hands_of_a_reader(filled):
    """A part of a name, an order in the address, and a table that is not drawn again while a row has the focus."""
    names = "[...document.querySelectorAll('tbody th')].map((one) => one.innerText)"
    every = filled.show("sources", f"document.querySelector('tbody') && {names}")
    ordered = "document.querySelector('th[aria-sort=ascending]')"
    found = filled.show("sources?sort=source", f"{ordered} && {names}")
    named = [name for name in found if name != "no source"]
    assert (len(found), sorted(named, key=str.lower)[:3]) == (len(every), named[:3])
    part = named[0][2:7]
    listed = filled.client.get("/v1/sources", params={"limit": 100, "q": part}).json()
    having = [one["source"] for one in listed["sources"]]
    assert named[0] in having
    assert filled.show(f"sources?q={part}", f"{names}.length === {len(having)} && {names}") == having
    filled.show("sources", f"document.querySelector('tbody') && {names}.length === {len(every)}")
    exported = """(() => {
        globalThis.file = null;
        const before = HTMLAnchorElement.prototype.click;
        URL.createObjectURL = (blob) => { blob.text().then((text) => { globalThis.file = text; }); return 'data:,'; };
        HTMLAnchorElement.prototype.click = () => { HTMLAnchorElement.prototype.click = before; };
        document.querySelector('form.search button[type=button]').click();
    })()"""
    filled.browser.evaluate(exported)
    count = filled.client.get("/v1/sources?limit=1").json()["count"]  # other tests leave thousands
    assert len(filled.browser.wait("globalThis.file").splitlines()) == 1 + count
    assert filled.show("sources?page=999", "document.querySelector('.notice.empty')?.innerText").startswith(
        "No sources on"
    )
    filled.browser.evaluate("globalThis.late = setTimeout; setTimeout = (call, wait) => late(call, wait / 20);")
    filled.show("sources", f"document.querySelector('tbody') && {names}.length === {len(every)}")
    filled.browser.evaluate("""(() => {
        document.querySelector('tbody a').focus();
        globalThis.row = document.querySelector('tbody tr');
        globalThis.asked = 0;
        const before = globalThis.fetch;
        globalThis.fetch = async (...given) => {
            const answer = await before(...given);
            globalThis.asked += 1;
            return answer;
        };
    })()""")
    assert filled.browser.wait("globalThis.asked > 1 && (setTimeout = late) && [document.contains(row)]") == [True]


def test_an_editor_hides_and_follows_a_story_by_keyboard(page):
    """The buttons say what holds. A hidden story is in no list but that of hidden ones."""
    text = "The town library lends out telescopes from Monday on, and the first hundred are booked until the autumn. "
    for name in ("l1", "l2"):
        cluster = page.client.post("/v1/check", json={"id": name, "text": f"{text * 2}{name}"}).json()["cluster"]
    pressed = "document.querySelector('[data-desk={}]')?.getAttribute('aria-pressed')"
    assert page.show(f"story/{cluster}", pressed.format("muted")) == "false"
    page.browser.evaluate("document.querySelector('[data-desk=muted]').focus()")
    page.browser.press("Enter", ENTER)
    page.browser.wait(f"{pressed.format('muted')} === 'true' && document.activeElement.dataset.desk === 'muted'")
    page.show("stories?q=telescopes", "document.querySelector('.notice.empty')")
    page.show("stories?q=telescopes&hidden=1", f"{TITLES}.length === 1")
    page.show(f"story/{cluster}", pressed.format("followed"))
    page.browser.evaluate("document.querySelector('[data-desk=followed]').focus()")
    page.browser.press("Enter", ENTER)
    page.browser.wait("document.querySelector('.desk [role=status]').innerText.includes('--webhook')")
