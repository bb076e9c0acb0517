"""A receiver of a web hook on the loopback that fails in every way, and what it received."""

import json
import random
import threading
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from service_world import NOW

from neardup_workers.doing.http.outgoing.delivery import Bounds, Delivery
from neardup_workers.outside.store.extra import outbox
from neardup_workers.outside.store.reading import StoreReader

SECRET = "whsec_" + "c2VjcmV0" * 4


class Receiver:
    """Takes events over HTTP. ``received`` has each request in order: headers and body.

    ``fails(number)`` says what to do with request number ``number``: ``None`` takes it; a status refuses it; ``cut``
    closes the connection without an answer, ``late`` takes it and closes then.
    """

    def __init__(self, fails=lambda number: None, port=0):
        self.received, self.taken = [], []
        world = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                answer = fails(len(world.received))
                world.received.append((dict(self.headers), body))
                if answer in (None, "late"):
                    world.taken.append(json.loads(body))
                if answer in ("cut", "late"):
                    self.close_connection = True
                    self.connection.close()
                    return
                self.send_response(answer or 204)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *arguments):
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, request, client_address):  # a connection that was cut
                pass

        self._server = Server(("127.0.0.1", port), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/hook"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def failing(seed):
    """A receiver's failures at random: half of the requests are refused, cut, or taken without an answer."""
    rng = random.Random(seed)
    return lambda number: rng.choice([None, None, None, None, 500, 400, "cut", "late"])


def verify_arrived(bodies, stored):
    """Every stored event arrived, the first arrivals of a story in order, repetitions under the same id with the same
    body.

    Args:
        bodies: of all events that were taken, in order.
        stored: id of each stored event -> its story, in order.
    """
    first = {}
    for body in bodies:
        assert first.setdefault(body["id"], body) == body
    assert first.keys() == stored.keys()
    by_story, in_order = defaultdict(list), defaultdict(list)
    for id_, body in first.items():
        by_story[body["story"]].append(id_)
    for id_, story in stored.items():
        in_order[story].append(id_)
    assert by_story == in_order


def waiting(world, now=NOW):
    """The bodies of the events that wait."""
    return [json.loads(event.body) for event in StoreReader(world.keeper.log.path).ask(outbox.due, now, 10_000)]


BOUNDS = Bounds(100.0, 1000, 10)


def delivery(world, send, bounds=BOUNDS, now=lambda: NOW):
    """What sends the events of a world, without its thread."""
    return Delivery(StoreReader(world.keeper.log.path), world.writer.call, send, world.observer, now, bounds)
