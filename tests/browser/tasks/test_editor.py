"""Ten tasks of an editor, on a phone and by keyboard alone: which keys lead to which answer."""

import itertools
import sys
import time

import pytest
from open_page import ENTER

TAB, SPACE = 9, 32
NOW = time.time()
STORM = "A storm closes the harbour of Vellin on Friday, the ferries stay in port, and the council opens two halls."
FLOOD = "The river Lipa floods the lower town since dawn, and the fire brigade takes families out by boat."
NOTICE = "We and our partners use cookies on this site, and you may say no to each of them in the settings below."
ROWS = [
    ("mirror", STORM, 0, "Wire Mirror", "Storm closes Vellin"),
    ("agency", f"{STORM} ", 3600, "Coast Agency", "Storm at Vellin"),
    ("mirror", STORM.replace("two halls", "five halls"), 0, "Wire Mirror", "Storm closes Vellin, corrected"),
    ("flood", FLOOD, 60, "Lipa Daily", "River in the lower town"),
    ("flood2", f"{FLOOD} Again.", 30, "Hill Courier", "Lipa floods"),
    ("n1", NOTICE, 0, "Site A", "Cookies"),
    ("n2", NOTICE, 0, "Site B", "Cookies"),
]
FOCUS = "document.activeElement"


class Editor:
    """A person without a mouse: who goes on from control to control until one says what is looked for."""

    def __init__(self, page):
        self.page, self.browser, self.keys = page, page.browser, 0
        self.begun = []  # the tasks: when they began, which key was the last one before them, what they are

    def begin(self, task):
        """Begin a task, after the one before."""
        self.begun.append((time.perf_counter(), self.keys, task))

    def press(self, key, code):
        self.keys += 1
        self.browser.press(key, code)

    def reach(self, name):
        """Go to the next control whose name has a text."""
        for _ in range(200):
            self.press("Tab", TAB)
            said = self.browser.evaluate(
                f"{FOCUS} === document.body ? '' : {FOCUS}.innerText + ' ' + {FOCUS}.getAttribute('aria-label')"
            )
            if name.lower() in said.lower():
                return
        raise AssertionError(f"no control says {name}")

    def open(self, name, condition):
        """Go to a control, press it, and wait for a condition."""
        self.reach(name)
        self.press("Enter", ENTER)
        return self.browser.wait(condition)

    def type(self, text):
        self.browser.call("Input.insertText", text=text)


@pytest.fixture(scope="module")
def editor(page):
    answers = [
        page.client.post("/v1/check", json={
            "id": id_, "text": text, "timestamp": NOW - seconds, "source": source, "title": title,
        }).raise_for_status().json()
        for id_, text, seconds, source, title in ROWS
    ]  # fmt: skip
    page.notice = answers[-1]["cluster"]
    page.browser.look(width=390, height=844)
    yield Editor(page)
    page.browser.look()


def test_ten_tasks_of_an_editor_need_no_mouse_and_few_keys(editor):
    """Each begins where the one before has ended."""
    text = "document.querySelector('main').innerText"
    shows = f"{text}.includes({{!r}})".format
    editor.page.show("now", shows("Just found"))
    editor.begin("1. What is new of the storm? Find its story by a word")
    editor.open("Stories", "document.title.startsWith('Stories')")
    editor.reach("Words, an id or a source")
    editor.type("vellin")
    editor.press("Enter", ENTER)
    editor.browser.wait(f"{text}.includes('1 story.')")
    editor.begin("2. Open it: who had it first, by arrival?")
    editor.open("Storm closes Vellin", "document.querySelector('.members')")
    found = editor.browser.evaluate("document.querySelector('.members').innerText").lower()
    assert found.index("wire mirror") < found.index("arrived first") < found.index("coast agency")
    editor.begin("3. And by date?")
    editor.open("By date", "document.querySelector('.choices [aria-current]')?.innerText === 'By date'")
    found = editor.browser.wait("document.querySelector('.members')?.innerText").lower()
    assert found.index("coast agency") < found.index("first by date") < found.index("wire mirror")
    editor.begin("4. What was corrected, and in what?")
    editor.open("Changes", "document.querySelector('.changes ins')")
    assert editor.browser.evaluate("document.querySelector('.changes ins').innerText") == "five"
    editor.begin("5. Follow the story: the service says that it has no web hook")
    editor.open("Follow", shows("--webhook"))
    editor.begin("6. Why are the two one story?")
    editor.open("Compare", "document.querySelector('.verdict')?.innerText.includes('They are')")
    editor.begin("7. Say that they are not, for later copies too; and take it back, against what was said")
    editor.open("Not a duplicate", shows("Kept in this browser"))
    editor.open("Make it hold", shows("so are later copies"))
    editor.open("Duplicate", shows("Kept in this browser"))
    editor.open("Make it hold", shows("Replace what was said"))
    editor.press("Enter", ENTER)
    editor.browser.wait(shows("so are later copies"))
    editor.browser.reload()
    editor.browser.wait(shows("They tell one story: token said so"))
    editor.begin("8. Hide a notice everywhere")
    editor.page.show(f"story/{editor.page.notice}", shows("Hide everywhere"))
    editor.open("Hide everywhere", "document.querySelector('[data-desk=muted]').ariaPressed === 'true'")
    editor.begin("9. Is a pasted text known?")
    editor.page.show("ask", "document.querySelector('form.ask')")
    editor.browser.evaluate("document.querySelector('textarea').focus()")
    editor.type(FLOOD)
    editor.open("Look", "document.querySelector('.answers')?.innerText.toLowerCase().includes('lipa daily')")
    editor.begin("10. Who tells the story of the flood?")
    editor.page.show("stories?q=lipa", "document.querySelector('.card')")
    editor.open("River in the lower town", shows("from 2 sources"))
    editor.begin("end")
    for (began, before, task), (ended, keys, _) in itertools.pairwise(editor.begun):
        sys.stdout.write(f"{ended - began:.1f} s, {keys - before} keys: {task}\n")
    assert editor.keys < 200
