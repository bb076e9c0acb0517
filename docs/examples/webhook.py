"""A receiver of a web hook: it checks who sends, takes each event once, and prints it.

export NEARDUP_WEBHOOK_SECRET=whsec_$(openssl rand -base64 32)
python docs/examples/webhook.py 8471 &
neardup serve --state window --webhook http://127.0.0.1:8471/
"""

import base64
import hmac
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECRET = base64.b64decode(os.environ.get("NEARDUP_WEBHOOK_SECRET", "").removeprefix("whsec_"))
SEEN: set[str] = set()  # a real receiver keeps the ids where it keeps what it makes of the events


class Receiver(BaseHTTPRequestHandler):
    """Answers 204 to an event that it has, 401 to what was not sent with the secret within five minutes."""

    def do_POST(self) -> None:
        """Take an event."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        id_, sent = self.headers.get("webhook-id", ""), self.headers.get("webhook-timestamp", "0")
        digest = base64.b64encode(hmac.digest(SECRET, f"{id_}.{sent}.".encode() + body, "sha256")).decode()
        is_genuine = hmac.compare_digest(f"v1,{digest}", self.headers.get("webhook-signature", ""))
        if is_genuine and abs(time.time() - int(sent)) < 300 and id_ not in SEEN:
            print(body.decode() + "\n", end="", flush=True)
            SEEN.add(id_)
        self.send_response(204 if id_ in SEEN and is_genuine else 401)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print events alone."""


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver).serve_forever()
