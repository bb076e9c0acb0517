"""Records of WARC archives, made byte for byte."""

from __future__ import annotations

# Enough words that an extractor takes them for an article.
PARAGRAPH = "The harbour was closed on Tuesday because the tide had carried away a part of the wall near the old mill. "


def record(block, kind="response", uri="http://a.example/", date="2024-05-06T07:08:09Z", name="1", **headers):
    """A record; ``headers`` with underscores in place of dashes."""
    fields = {
        "WARC-Type": kind,
        "WARC-Record-ID": f"<urn:uuid:{name}>",
        "WARC-Date": date,
        "WARC-Target-URI": uri,
        "Content-Type": "application/http; msgtype=response",
        **{name.replace("_", "-"): value for name, value in headers.items()},
        "Content-Length": str(len(block)),
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items() if value)
    return b"WARC/1.0\r\n" + head.encode() + b"\r\n" + block + b"\r\n\r\n"


def answer(body, content_type="text/html; charset=utf-8", status="200 OK", **headers):
    """The answer of a server."""
    fields = {"Content-Type": content_type, **{name.replace("_", "-"): value for name, value in headers.items()}}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items() if value)
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body


def page(text, title="A page", menu="Home News Sport"):
    """A page with an article."""
    return (
        f"<!DOCTYPE html><html><head><title>{title}</title></head><body><nav><a href='/'>{menu}</a></nav>"
        f"<article><h1>{title}</h1><p>{text}</p></article><footer>Imprint</footer></body></html>"
    ).encode()
