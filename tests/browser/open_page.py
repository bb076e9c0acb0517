"""The page of a service that requires a token, open in the one browser of these tests."""

import json

import httpx
import pytest
from devtools import Browser
from service_process import Serving

TOKEN = "a-token-of-enough-characters"
ENTER = 13


class Page:
    """A browser with the page of a service that requires a token."""

    def __init__(self, browser, serving):
        self.browser, self.url = browser, serving.url
        self.client = httpx.Client(base_url=serving.url, timeout=60, headers={"Authorization": f"Bearer {TOKEN}"})

    def check(self, id_, text):
        return self.client.post("/v1/check", json={"id": id_, "text": text}).raise_for_status().json()

    def check_all(self, documents):
        lines = "\n".join(json.dumps(document) for document in documents)
        headers = {"Content-Type": "application/x-ndjson"}
        answers = self.client.post("/v1/check:batch", content=lines, headers=headers).text.splitlines()
        assert json.loads(answers[-1])["done"] == len(answers) - 1
        return [json.loads(line) for line in answers[:-1]]

    def show(self, view, condition):
        """Open a view, and return the value of a condition as soon as it is true.

        The page draws the view when it gets the event of the new address; until then the condition would hold, or
        not, for the view before. This listener came later than that of the page, so it is called after it.
        """
        self.browser.evaluate(f"""new Promise((resolve) => {{
            const before = location.href;
            addEventListener('hashchange', resolve, {{ once: true }});
            location.hash = {json.dumps(f"#/{view}")};
            if (location.href === before) resolve();
        }})""")
        return self.browser.wait(condition)

    def ask(self, text, expected=""):
        """Paste a text in the view Ask and press the button."""
        self.show("ask", "document.querySelector('form.ask')")
        values = json.dumps([text, expected])
        self.browser.evaluate(f"""(() => {{
            const [text, expected] = {values};
            document.querySelector('textarea').value = text;
            document.querySelector('form.ask input').value = expected;
            document.querySelector('.answers').replaceChildren();
            document.querySelector('form.ask button.primary').click();
        }})()""")
        return self.browser.wait("document.querySelector('.answers .verdict')?.innerText")


@pytest.fixture(scope="module")
def serving(tmp_path_factory, chromium):
    settings = "--durability", "normal", "--keep-texts", "--clock", "event"
    serving = Serving(tmp_path_factory.mktemp("state"), *settings, NEARDUP_TOKEN=TOKEN)
    yield serving
    serving.kill()


@pytest.fixture(scope="module")
def page(tmp_path_factory, chromium, serving):
    """The page after a wrong and the right token, as a person types them."""
    browser = Browser(chromium, tmp_path_factory.mktemp("browser"))
    try:
        page = Page(browser, serving)
        browser.open(f"{serving.url}/#/now")
        for token, after in (
            (f"{TOKEN}?", "!document.getElementById('token-error').hidden"),
            (TOKEN, "!document.querySelector('dialog').open"),
        ):
            browser.wait("document.querySelector('dialog').open")
            browser.evaluate("document.getElementById('token-value').focus()")
            browser.call("Input.insertText", text=token)
            browser.press("Enter", ENTER)
            browser.wait(after)
        browser.wait("document.getElementById('live').dataset.state === 'live'")
        yield page
        page.client.close()
    finally:
        browser.close()
