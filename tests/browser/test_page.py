"""The page of the service in a real browser: every view, live figures, hostile data, the token, marks, limits."""

import itertools
import json
import threading
import time
from urllib.parse import urlencode

import httpx
from news import STORIES, documents
from open_page import ENTER, TOKEN
from watch import samples

from neardup_workers.outside.options.judging import EvaluateOptions
from neardup_workers.outside.settings.serve import ServeSettings
from neardup_workers.running.commands.evaluate.pairs import evaluate

STORM = STORIES["coast-storm"]
ARABIC = STORIES["عاصفة-الساحل"]
# No story has this text, so the window holds no other copy of it, however many documents were sent before.
CLOCKS = (
    "The museum of clocks opens its doors again on Friday after a year of repairs. The oldest piece, a tower clock "
    "with one hand, runs for the first time since 1911, and a watchmaker explains every hour how the bells were tuned. "
    "The rooms stay open until midnight on the first weekend, and from Sunday on the cellar shows sundials and "
    "hourglasses."
)
TEAPOT = "A teapot of the seventeenth century was sold by auction to a collector who wants to drink from it."
TAB = 9


def test_an_empty_window_is_explained(page):
    """Each view says what it waits for; the figures are those of a service at rest."""
    headline = page.show("now", "document.querySelector('.headline').innerText")
    assert headline.splitlines() == ["Waiting for documents.", "Send the first one to POST /v1/check."]
    assert "No stories yet" in page.show("stories", "document.querySelector('.notice.empty')?.innerText")
    assert "Name two documents" in page.show("pair", "document.querySelector('.notice.empty')?.innerText")
    assert page.ask(STORM) == "Nothing in the window is near it."
    assert page.browser.wait("document.querySelector('.facts').innerText").startswith(
        "A document of similarity 0.7 would"
    )


def test_now_follows_a_hundred_documents_a_second(page):
    """Documents that were answered are on the page soon, while a hundred a second come."""
    page.show("now", "document.querySelector('main').dataset.documents === '0'")
    ended, sent = threading.Event(), []
    steady, extra = documents(7), documents(8)

    def send():
        with httpx.Client(base_url=page.url, timeout=60, headers=dict(page.client.headers)) as client:
            while not ended.wait(0.01):
                client.post("/v1/check", json=next(steady)).raise_for_status()
                sent.append(1)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        page.browser.wait("Number(document.querySelector('main').dataset.documents) > 100")
        for _ in range(2):
            page.check_all({**one, "id": f"extra-{one['id']}"} for one in itertools.islice(extra, 100))
            total = page.client.get("/v1/figures").json()["present"]["documents"]
            page.browser.wait(f"Number(document.querySelector('main').dataset.documents) >= {total}")
        page.browser.wait("document.querySelectorAll('.latest li').length === 8")
        page.browser.wait("/documents? a (second|minute)/.test(document.querySelector('.headline').innerText)")
    finally:
        ended.set()
        sender.join()
    assert sent
    page.browser.wait("document.querySelectorAll('.tile .curve').length === 4")
    link = "document.querySelector('.latest a').getAttribute('href').startsWith('#/pair?a=')"
    assert page.browser.evaluate(link)


def test_a_story_of_10000_members_stays_usable(page):
    """The card names it; the members come fifty at a time, forwards and backwards, so the page stays small."""
    page.check_all(
        {"id": f"https://mirror-{n}.example/big", "text": "The same words on every mirror, ten thousand times."}
        for n in range(10_000)
    )
    card = page.show(
        "stories",
        "[...document.querySelectorAll('.card')].find((card) => card.innerText.startsWith('10,000'))?.innerText",
    )
    assert "The same words on every mirror" in card
    assert "and 9,995 more" in card
    page.browser.evaluate("document.querySelector('.card a').click()")
    title = "document.querySelector('.story h2')?.innerText"
    assert page.browser.wait(title) == "Documents 1 to 50 of 10,000"
    page.browser.evaluate("document.querySelector('.turn button:last-child').click()")
    page.browser.wait(f"{title} === 'Documents 51 to 100 of 10,000'")
    assert page.browser.evaluate("document.querySelectorAll('.members li').length") == 50
    assert page.browser.evaluate("document.activeElement === document.querySelector('.story h2')")
    page.browser.evaluate("document.querySelector('.turn button').click()")
    page.browser.wait(f"{title} === 'Documents 1 to 50 of 10,000'")
    page.browser.evaluate("document.querySelector('.choices a:last-child').click()")  # by date, also 50 at a time
    page.browser.wait(f"document.querySelector('.choices a:last-child')?.ariaCurrent && {title}")
    for first in (51, 101):
        page.browser.evaluate("document.querySelector('.turn button:last-child').click()")
        page.browser.wait(f"{title} === 'Documents {first} to {first + 49} of 10,000'")
    assert page.browser.evaluate("document.querySelectorAll('*').length") < 1500


def test_by_date_earlier_leads_to_what_was_shown_before(page):
    """Also over the end of a page that updates make longer than a thousand rows."""
    text = "The lighthouse keeper of the northern cape counts ships every evening, and writes each of them in a book."
    rows = [("cape", text), *(("cape", f"{text} {n}") for n in range(120)), *((f"c{n}", text) for n in range(1_010))]
    answers = page.check_all({"id": id_, "text": said} for id_, said in rows)
    assert sum(one["status"] == "update" for one in answers) > 100
    title = "document.querySelector('.story h2')?.innerText"
    seen = [page.show(f"story/{answers[0]['cluster']}?sort=date", title)]
    turn = "(() => {{ [...document.querySelectorAll('.turn button')].at({}).click(); }})()".format
    while "to 1,000 of" not in seen[-1]:
        page.browser.evaluate(turn(-1))
        seen.append(page.browser.wait(f"{title} !== {seen[-1]!r} && {title}"))
    page.browser.evaluate(turn(-1))
    page.browser.wait(f"{title}.startsWith('Documents 1,001')")
    page.browser.evaluate(turn(0))
    assert page.browser.wait(f"!{title}.startsWith('Documents 1,001') && {title}") == seen[-1]


def test_a_story_shows_the_updates_of_its_first_document(page):
    """In their place, with the similarity to the version that was compared and the changes."""
    text = "The library at the harbour opens a reading room for sailors, with newspapers of the whole coast on Monday."
    documents = (("library", text), ("mirror", text), ("library", text.replace("Monday", "Tuesday")))
    answers = [page.client.post("/v1/check", json={"id": id_, "text": said}).json() for id_, said in documents]
    assert [answer["status"] for answer in answers] == ["original", "duplicate", "update"]
    shown = page.show(f"story/{answers[0]['cluster']}", "document.querySelector('.update')?.innerText")
    words = shown.split()
    assert words[-2:] == [str(round(answers[2]["similarity"], 4)), "Changes"]
    ids = page.browser.evaluate(
        "[...document.querySelectorAll('.story > .members > li .id')].map((one) => one.innerText)"
    )
    assert ids == ["library", "mirror", "library"]
    heading = page.browser.evaluate("document.querySelector('.story h2').innerText")
    assert heading == "Documents 1 to 2 of 2, and 1 update"
    page.browser.evaluate("document.querySelector('.update button').click()")
    assert page.browser.wait("document.querySelector('.changes ins')?.innerText") == "Tuesday"
    assert page.browser.evaluate("document.querySelector('.changes del').innerText") == "Monday"


def test_the_order_of_arrival_is_no_order_of_dates(page):
    """A mirror that came first copies no one, and what came within a second is dated over the hours between."""
    text, now = (
        "Bells were cast in the yard of the old foundry, and ring on Friday for the first time since the war.",
        time.time(),
    )
    for id_, seconds in (("https://wire-mirror.example/bells", 0), ("https://agency.example/bells", 8 * 3600)):
        document = {"id": id_, "text": text.replace("Friday", id_), "timestamp": now - seconds}
        cluster = page.client.post("/v1/check", json=document).raise_for_status().json()["cluster"]
    row = page.show(
        "now", "[...document.querySelectorAll('.from')].find((row) => row.innerText.startsWith('agency'))?.innerText"
    )
    assert row == "agency.example also in wire-mirror.example"
    sentence = page.show(f"story/{cluster}", "document.querySelector('.story p.quiet')?.innerText")
    assert sentence == "2 documents from 2 sources, dated over 8 hours."
    members = page.browser.evaluate("document.querySelector('.members').innerText")
    assert members.index("wire-mirror") < members.index("arrived first") < members.index("agency")
    assert members.index("agency") < members.index("first by date")
    dated = "document.querySelector('.choices [aria-current]')?.innerText === 'By date'"
    members = page.show(f"story/{cluster}?sort=date", f"{dated} && document.querySelector('.members')?.innerText")
    assert members.index("agency") < members.index("wire-mirror")
    first, second = (f"https://{name}.example/bells" for name in ("wire-mirror", "agency"))
    page.show(
        f"pair?{urlencode({'a': second, 'b': first})}",
        "document.querySelector('.verdict')?.innerText === 'They are a pair.'",
    )
    roles = page.browser.wait("[...document.querySelectorAll('.role')].map((role) => role.innerText)")
    assert [role.lower() for role in roles] == ["arrived first", "arrived later"]


def test_a_pair_shows_what_differs_and_takes_a_mark_for_evaluate(page, tmp_path):
    """An address leads to its article. Marks are a file for ``evaluate --truth``; the same press takes one back."""
    page.check("first", CLOCKS)
    page.check("second", CLOCKS.replace("Sunday", "Monday"))
    page.show("pair?a=first&b=second", "document.querySelector('.verdict')?.innerText === 'They are a pair.'")
    page.browser.wait("document.querySelector('ins')?.innerText === 'Monday'")
    assert page.browser.evaluate("document.querySelector('del').innerText") == "Sunday"
    press = "document.querySelector('[data-mark={}]').click()"
    page.browser.evaluate(press.format("duplicate"))
    assert page.browser.wait("document.getElementById('marks').innerText") == "Download 1 mark"
    page.show(
        "pair?a=never&b=second",
        "document.querySelector('.verdict')?.innerText.startsWith('They are no pair: no version')",
    )
    page.show(
        "pair?a=first&b=https%3A%2F%2Fmirror-7.example%2Fbig",
        "document.querySelector('.verdict')?.innerText.startsWith('They are no pair: they share no bucket')",
    )
    articles = "[...document.querySelectorAll('.side h2 a')].map((one) => one.href)"
    assert page.browser.evaluate(articles) == ["https://mirror-7.example/big"]
    page.browser.evaluate(press.format("different"))
    for _ in range(2):
        page.browser.evaluate(press.format("duplicate"))
    page.browser.evaluate(press.format("different"))
    lines = page.browser.evaluate("import('/page/marks.js').then(({ marks }) => marks.lines())")
    (tmp_path / "marks.jsonl").write_text(lines)
    (tmp_path / "pairs.jsonl").write_text('{"older":"first","newer":"second","similarity":0.9,"buckets":9}\n')
    found = evaluate(EvaluateOptions(str(tmp_path / "pairs.jsonl"), str(tmp_path / "marks.jsonl")), ServeSettings())
    assert (found.confusion.true_positives, found.confusion.false_negatives, found.left_out) == (1, 0, {})


def test_ask_names_what_is_near_and_why(page):
    """The differences open below a document; a document that is expected is explained too."""
    page.check("first", CLOCKS)
    text = CLOCKS.replace("Friday", "Thursday")
    assert page.ask(text, "https://mirror-7.example/big").startswith("It is near ")
    assert page.browser.wait("[...document.querySelectorAll('.answers .verdict')].at(-1).innerText").startswith(
        "They are no pair: they share no"
    )
    page.browser.evaluate("document.querySelector('.near button').click()")
    assert page.browser.wait("document.querySelector('.why ins')?.innerText") == "Thursday"
    assert page.browser.evaluate("document.querySelector('.near button').getAttribute('aria-expanded')") == "true"
    page.browser.evaluate("document.querySelector('.near button').click()")
    page.browser.wait("!document.querySelector('.why')")


def test_hostile_ids_and_texts_are_text(page):
    """Markup makes no element, an override of the direction is named, and 5 MB of text are shown in part."""
    script = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    words = " ".join(f"word{n}" for n in range(600_000))[:4_900_000]
    page.check("a-" + script, script + TEAPOT + "\u202eevil\u0000")
    page.check("b-\u202e\u0000" + script, script + TEAPOT + "\u202eevil\u0000 again")
    page.check("long-1", words)
    page.check("long-2", words[:-9] + " changed")
    address = "document.querySelector('.pair .sides')"
    page.show("pair?" + httpx.QueryParams({"a": "a-" + script, "b": "b-\u202e\u0000" + script}).__str__(), address)
    assert page.browser.evaluate("document.querySelector('.sides').innerText.includes('<script>document.title')")
    assert page.browser.evaluate("document.querySelector('.side:last-child .id').innerText").startswith(
        "b-[U+202E][U+0000]<script>"
    )
    assert page.browser.evaluate("document.querySelectorAll('main script, main img').length") == 0
    page.show(
        "stories?sort=recent",
        "[...document.querySelectorAll('.card h2')].some((title) => title.innerText.startsWith('<script>'))",
    )
    page.show("pair?a=long-1&b=long-2", "document.querySelector('.further')")
    assert page.browser.evaluate("document.querySelector('.text').innerText.length") < 40_000
    page.show("ask", "document.querySelector('textarea')")
    page.browser.evaluate(f"""(() => {{
        const clipboardData = new DataTransfer();
        clipboardData.setData('text/plain', {json.dumps(words)});
        document.querySelector('textarea').dispatchEvent(new ClipboardEvent('paste', {{ clipboardData }}));
        document.querySelector('form.ask button.primary').click();
    }})()""")
    assert page.browser.wait("document.querySelector('.answers .verdict')?.innerText").startswith("It is near ")
    assert page.browser.evaluate("document.querySelector('textarea').value.length") < 3000
    page.browser.evaluate("document.querySelector('form.ask .link').click()")
    assert page.browser.evaluate("document.title") == "Ask · neardup"


def test_a_file_of_rows_runs_no_formula(page):
    """No text begins with a sign of formulas, whatever unseen letters stand before it, and none has a second line."""
    rows = [{"v": value} for value in ("=1", "\uff1d1", " +1", "-1", "\u200b@1", "\u202e=1", "\u0085=1", "a\n=1")]
    made = f"import('{page.url}/page/dom.js').then(({{ csv }}) => csv(['v'], {json.dumps(rows)}))"
    _, *lines, end = page.browser.evaluate(made).split("\r\n")
    assert ([line[0] for line in lines], end) == (["'"] * 7 + ["a"], "")


def test_text_is_set_in_its_own_direction(page):
    """Arabic runs from right to left, in cards and in pairs; the page around it does not."""
    page.check("ar-1", ARABIC)
    page.check("ar-2", ARABIC + " اليوم")
    page.show("pair?a=ar-1&b=ar-2", "document.querySelector('ins')")
    direction = "getComputedStyle(document.querySelector('{}')).direction"
    assert page.browser.evaluate(direction.format(".text")) == "rtl"
    assert page.browser.evaluate(direction.format("main")) == "ltr"


def test_every_view_fits_a_narrow_screen_and_both_colours(page):
    """Nothing is wider than the window; paper and ink change with the colours that the person prefers."""
    papers = set()
    for dark in (False, True):
        page.browser.look(width=360, height=740, dark=dark)
        for view in ("now", "stories", "pair?a=first&b=second", "ask"):
            page.show(view, "document.querySelector('main').getAttribute('aria-busy') === 'false'")
            assert page.browser.wait("document.documentElement.scrollWidth <= innerWidth"), view
        papers.add(page.browser.evaluate("getComputedStyle(document.documentElement).backgroundColor"))
    page.browser.look()
    assert len(papers) == 2


def test_the_page_works_without_a_mouse_and_names_its_parts(page):
    """Tab reaches the views in order, Enter opens one; the open view is named, and every control has a name."""
    page.show("now", "document.querySelector('.headline').innerText")
    page.browser.evaluate("document.body.focus(); document.activeElement.blur()")
    page.browser.evaluate("document.querySelector('.skip').focus()")
    for _ in range(3):
        page.browser.press("Tab", TAB)
    assert page.browser.evaluate("document.activeElement.innerText") == "Stories"
    page.browser.press("Enter", ENTER)
    page.browser.wait("document.title === 'Stories · neardup'")
    assert page.browser.evaluate("document.querySelector('nav [aria-current=page]').innerText") == "Stories"
    assert page.browser.evaluate("document.activeElement.id") == "view"
    nameless = []
    for view in ("now", "stories", "pair?a=first&b=second", "ask"):
        page.show(view, "document.querySelector('main').getAttribute('aria-busy') === 'false'")
        nodes = page.browser.call("Accessibility.getFullAXTree")["nodes"]
        roles = ("link", "button", "textbox", "image")
        nameless += [
            (view, node["role"]["value"])
            for node in nodes
            if node.get("role", {}).get("value") in roles and not node["name"]["value"]
        ]
    assert nameless == []


def test_a_service_that_is_gone_is_said_and_found_again(page):
    """The state says so; the page connects again by itself."""
    page.show("now", "document.querySelector('.headline').innerText")
    state = "document.getElementById('live').dataset.state === '{}'"
    offline = {"latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
    page.browser.call("Network.emulateNetworkConditions", offline=True, **offline)
    page.show("stories", "document.querySelector('.notice.failed')")
    page.browser.call(
        "Network.emulateNetworkConditions", offline=False, latency=0, downloadThroughput=-1, uploadThroughput=-1
    )
    page.show("now", state.format("live"))
    page.show("stories", "document.querySelector('.card')")


def test_the_page_does_not_grow_with_the_documents(page):
    """The same few hundred elements after each sample; ``watch.py`` looks at it for minutes."""
    page.show("now", "document.querySelectorAll('.latest li').length === 8")
    found = list(samples(page.browser, page.client, rate=100, count=3, every_seconds=0.3))
    assert found[0].documents < found[1].documents < found[2].documents
    assert page.browser.evaluate("document.querySelectorAll('*').length") < 600


def test_the_requests_are_described_without_another_host(page):
    """Every request of the description is there, with an example."""
    page.browser.open(f"{page.url}/docs")
    page.browser.wait("document.getElementById('view').dataset.ready")
    described = page.client.get("/openapi.json").json()["paths"]
    names = page.browser.evaluate("[...document.querySelectorAll('summary code')].map((code) => code.innerText)")
    assert names == [path for path, methods in described.items() for _ in methods]
    assert page.browser.evaluate("document.querySelectorAll('pre').length") == len(names)


def test_no_error_no_other_host_and_no_token_in_an_address(page):
    """After all views: no exception, no refusal of the content policy, and each request went to this service."""
    assert page.browser.events["Runtime.exceptionThrown"] == []
    entries = [entry["entry"]["text"] for entry in page.browser.events["Log.entryAdded"]]
    assert [text for text in entries if "Content Security Policy" in text or "TrustedHTML" in text] == []
    addresses = [request["request"]["url"] for request in page.browser.events["Network.requestWillBeSent"]]
    assert addresses
    assert [address for address in addresses if not address.startswith((f"{page.url}/", "data:,", "about:blank"))] == []
    assert [address for address in addresses if TOKEN in address] == []
