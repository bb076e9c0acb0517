"""A subscriber whose hubs answer from a list, with a clock that a test sets."""

import hmac

from neardup_workers.outside.feeds.fetch import Fetched, FetchError
from neardup_workers.outside.feeds.websub.discovery import Offer
from neardup_workers.outside.feeds.websub.subscriber import Subscriber

FEED, TOPIC, HUB = "http://a.example/feed", "http://a.example/self", "https://hub.example/"
OFFER = Offer(TOPIC, (HUB,))


class Hubs:
    """Hubs whose answers are a list, a clock that is set, and a subscriber."""

    def __init__(self, *answers, offer=OFFER, key=b"k" * 32):
        self.answers, self.sent, self.time, self.woken = list(answers), [], 1_000.0, []
        self.subscriber = Subscriber("https://public.example/in/", key, self.post, lambda: self.time, lambda: 0.5)
        self.subscriber._asking = self
        self.due = {}
        self.subscriber.listen(self.woken.append)
        if offer:
            self.subscriber.offered(FEED, offer)

    def add(self, turn, seconds):
        self.due[turn] = self.time + seconds

    def close(self, *, waits):
        pass

    def pass_(self, seconds=0.0):
        """Let time pass; what is due is done."""
        ends = self.time + seconds
        while self.due and (turn := min(self.due, key=self.due.get)) and self.due[turn] <= ends:
            self.time = max(self.time, self.due.pop(turn))
            if (again := self.subscriber._ask(turn)) is not None:
                self.due[turn] = self.time + again
        self.time = ends

    def post(self, url, form):
        self.sent.append((round(self.time), url, form))
        status = self.answers.pop(0) if self.answers else 202
        if isinstance(status, str):
            raise FetchError(status)
        return Fetched(status, {}, b"", url)

    @property
    def token(self):
        return self.sent[-1][2]["hub.callback"].rpartition("/")[2]

    def verify(self, mode="subscribe", lease="864000", topic=TOPIC, challenge="abc", **other):
        query = {"hub.mode": mode, "hub.topic": topic, "hub.challenge": challenge, "hub.lease_seconds": lease, **other}
        return self.subscriber.answer(self.token, query)

    def signed(self, body, method="sha256"):
        return f"{method}={hmac.digest(self.sent[-1][2]['hub.secret'].encode(), body, method).hex()}"
