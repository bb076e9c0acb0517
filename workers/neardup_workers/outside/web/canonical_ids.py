"""Ids that are URLs, in a form that differs only where the resources may differ.

Many spellings name one resource. ``canonical_url`` applies the rules that hold for nearly every server:

- scheme and host in lower case; no port where it is that of the scheme; a path is at least ``/``, without ``.`` and
  ``..``;
- percent-encoding in upper case, and only where it is needed; names in Punycode;
- parameters in order of name and value, ``?a`` as ``?a=``;
- no parameters that only count visits (``utm_...``, ``fbclid``, ``gclid``, ...), or that a setting names;
- no fragment, unless it names a page of a web application (``#!``, ``#/``).

It keeps what some servers tell apart: the case of the path, a slash at its end, double slashes, ``www.``, http against
https, and parameters such as ``sid``. An id that is no URL of http or https, or has spaces, backslashes or a user, is
unchanged.

w3lib implements it, because it follows RFC 3986 and drops nothing but fragments. courlan, the other choice, drops
parameters without a value and double slashes, so different pages would get one id.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from urllib.parse import urlsplit, urlunsplit

import numpy as np

from neardup.documents.document import Column, Document, DocumentColumns
from neardup.errors import Reason
from neardup.stories.arrow.columns import DocumentRows

# Parameters that only count visits, in lower case, and how other ones begin.
TRACKING = frozenset((
    "_ga", "_gl", "_hsenc", "_hsmi", "_openstat", "at_campaign", "at_medium", "dclid", "epik", "fbclid",
    "gad_campaignid", "gad_source", "gbraid", "gclid", "gclsrc", "igsh", "igshid", "li_fat_id", "mc_cid", "mc_eid",
    "mkt_tok", "msclkid", "rdt_cid", "sccid", "srsltid", "ttclid", "twclid", "vero_id", "wbraid", "wickedid", "yclid",
    "ysclid",
))  # fmt: skip
TRACKING_PREFIXES = ("utm_", "mtm_", "matomo_", "pk_", "piwik_", "hsa_")
# A URL with a host, and without anything that programs read in different ways: spaces, controls, backslashes, users.
_WEB = re.compile(r"https?://([\w.-]*\w|\[[0-9a-f:.]+\])(:[0-9]*)?([/?#][^\s\x00-\x1f\x7f-\xa0\\]*)?", re.IGNORECASE)
_PORTS = {"http": ":80", "https": ":443"}


def canonical_url(url: str, dropped: Collection[str] = ()) -> str:
    """Return the canonical form of a URL; anything else unchanged.

    ``dropped`` are parameters that are dropped in addition, in any case of letters; ``x_*`` are those that begin with
    ``x_``.

    >>> canonical_url("HTTP://News.Example:80/a/../b%7e?utm_source=x&b=2&a=1#top")
    'http://news.example/b~?a=1&b=2'
    >>> canonical_url("urn:isbn:0-486-27557-4")
    'urn:isbn:0-486-27557-4'
    """
    if not _WEB.fullmatch(url):
        return url
    from w3lib.url import canonicalize_url

    try:
        parts = urlsplit(url)
        lower = [one.lower() for one in dropped]
        names = TRACKING.union(lower)
        begins = TRACKING_PREFIXES + tuple(one[:-1] for one in lower if one.endswith("*"))
        kept = "&".join(one for one in parts.query.split("&") if not _is_dropped(one, names, begins))
        state = parts.fragment.startswith(("!", "/"))
        canonical = canonicalize_url(urlunsplit(parts._replace(query=kept)), keep_fragments=state)
        scheme, host, *rest = urlsplit(canonical)
        return urlunsplit((scheme, host.removesuffix(_PORTS[scheme]), *rest))
    except ValueError:
        return url


def _is_dropped(parameter: str, names: frozenset[str], begins: tuple[str, ...]) -> bool:
    name = parameter.partition("=")[0].lower()
    return name in names or name.startswith(begins)


class CanonicalIds:
    """Gives documents canonical ids, also without the parameters that are ``dropped``; ``changed`` counts the ids that
    this changed."""

    def __init__(self, dropped: Collection[str] = ()) -> None:
        self._dropped, self.changed = dropped, 0

    def name(self, id_: str) -> str:
        """Return the canonical form of an id."""
        url = canonical_url(id_, self._dropped)
        self.changed += url != id_
        return url

    def document(self, read: Document | Reason) -> Document | Reason:
        """Return a document with its canonical id; a reason unchanged."""
        return read if isinstance(read, Reason) else read._replace(id=self.name(read.id))

    def rows(self, rows: DocumentRows) -> DocumentRows:
        """Return rows of a table with canonical ids."""
        documents = rows.documents
        ids = [self.name(documents.ids.at(i).decode(errors="replace")).encode() for i in range(len(documents))]
        starts = np.zeros(len(ids) + 1, np.int64)
        np.cumsum([len(one) for one in ids], out=starts[1:])
        column = Column(np.frombuffer(b"".join(ids), np.uint8), starts)
        return replace(rows, documents=DocumentColumns(column, documents.times, documents.texts))
