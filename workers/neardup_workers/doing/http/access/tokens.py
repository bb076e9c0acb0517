"""Tokens: what each may do, for which collections, and how much in a minute.

The file of ``token_file`` has one token, which may do everything; or a line of JSON for each token, which has the
SHA-256 of the token and not the token itself. The file is read again when it has changed. One that cannot be read
leaves what was read before.
"""

from __future__ import annotations

import hmac
import logging
import os
import time
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl, urlencode

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from neardup.errors import ConfigError
from neardup_workers.outside.process.exits import Failure, input_failure
from neardup_workers.outside.settings.serve import ServeSettings, is_loopback

READ, WRITE, REMOVE, ADMIN = "read", "write", "remove", "admin"
# Method and path -> the role that it takes, where the method does not say it.
_ROLES = {("POST", "/v1/why"): READ, ("GET", "/v1/audit"): ADMIN}
_ROLE_OF_METHOD = {"GET": READ, "HEAD": READ, "OPTIONS": READ, "POST": WRITE, "DELETE": REMOVE}
# Requests that say of which collection they are, or whose answer does, begin so. Other ones are of all.
_OF_COLLECTIONS = (
    "/v1/check", "/v1/documents", "/v1/clusters", "/v1/why", "/v1/differences", "/v1/apart", "/v1/together",
    "/v1/figures", "/v1/stories.atom", "/openapi.json",
)  # fmt: skip
# A token shorter than this can be guessed.
_CHARACTERS_MIN = 16
# A change of the file is looked for so often at most, by a request.
_LOOK_SECONDS = 1.0
_MINUTE = 60.0


class _Line(BaseModel):
    """A token of the file."""

    model_config = ConfigDict(extra="forbid", strict=True)
    name: Annotated[str, Field(min_length=1, max_length=100)]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    roles: Annotated[list[Literal["read", "write", "remove", "admin"]], Field(min_length=1)]
    collections: Annotated[list[str], Field(min_length=1)] | None = None
    requests_per_minute: Annotated[int, Field(ge=1)] | None = None
    documents_per_minute: Annotated[int, Field(ge=1)] | None = None
    bytes_per_minute: Annotated[int, Field(ge=1)] | None = None


class Holder:
    """Who has a token, and what the token has used of this minute."""

    def __init__(self, line: _Line, now: Callable[[], float]) -> None:
        self.name, self.key = line.name, bytes.fromhex(line.sha256)
        self._collections = None if line.collections is None else frozenset(line.collections)
        self._roles, self._now = frozenset(line.roles), now
        kinds = ("requests", "documents", "bytes")
        self._most: dict[str, int | None] = {kind: getattr(line, f"{kind}_per_minute") for kind in kinds}
        self.used: dict[str, tuple[float, int]] = {}

    def lacks(self, method: str, path: str, query: bytes) -> bool:
        """Whether the token lacks the right of a request."""
        role = _ROLES.get((method, path)) or _ROLE_OF_METHOD.get(method, ADMIN)
        if path == "/v1/check" and dict(parse_qsl(query.decode("latin-1"))).get("add") == "false":
            role = READ
        if ADMIN not in self._roles and role not in self._roles:
            return True
        return self._collections is not None and not path.startswith(_OF_COLLECTIONS)

    def rights(self) -> dict[str, Any]:
        """Return the name of the token, its roles and its collections, ``None`` for all of them."""
        collections = None if self._collections is None else sorted(self._collections)
        return {"name": self.name, "roles": sorted(self._roles), "collections": collections}

    def may_name(self, collection: str | None) -> bool:
        """Whether the token may read and write a collection; ``None`` is all of them."""
        return self._collections is None or (collection is not None and collection in self._collections)

    def spends(self, kind: str, count: int = 1) -> bool:
        """Count requests, documents or bytes of this minute; false, and nothing is counted, if they are too many."""
        most, minute = self._most[kind], self._now() // _MINUTE
        if most is None:
            return True
        since, used = self.used.get(kind, (minute, 0))
        used = used if since == minute else 0
        if used + count > most:
            return False
        self.used[kind] = minute, used + count
        return True


class Tokens:
    """The tokens of a service, in a file, or one that may do everything. One thread uses it. ``now`` is a clock that
    only grows.

    Raises ``ConfigError`` if the file cannot be used, or a token is too short; ``Failure`` if the file cannot be read.
    """

    def __init__(self, path: Path | None, token: str = "", now: Callable[[], float] = time.monotonic) -> None:
        self._path, self._now, self._looked, self._stands = path, now, now(), _stands(path)
        self._holders: Mapping[bytes, Holder] = self._read(path) if path else self._one(token)

    def holder(self, token: bytes) -> Holder | None:
        """Return who has a token."""
        self._look()
        return self._holders.get(sha256(token).digest())

    def holder_of(self, name: str) -> Holder | None:
        """Return who has a name."""
        self._look()
        return next((one for one in self._holders.values() if one.name == name), None)

    def _look(self) -> None:
        if self._path is None or self._now() - self._looked < _LOOK_SECONDS:
            return
        self._looked, stands = self._now(), _stands(self._path)
        if stands == self._stands:
            return
        self._stands = stands
        try:
            holders = self._read(self._path)
        except (ConfigError, Failure) as error:
            logging.getLogger(__name__).error("%s; the tokens of before stay", error)
            return
        used = {one.name: one.used for one in self._holders.values()}
        for one in holders.values():
            one.used = used.get(one.name, one.used)
        self._holders = holders

    def _one(self, token: str) -> dict[bytes, Holder]:
        if len(token) < _CHARACTERS_MIN or not token.isascii():
            raise ConfigError(f"a token needs {_CHARACTERS_MIN} ASCII characters or more: set a longer one")
        one = Holder(_Line(name="token", sha256=sha256(token.encode()).hexdigest(), roles=["admin"]), self._now)
        return {one.key: one}

    def _read(self, path: Path) -> dict[bytes, Holder]:
        try:
            content = path.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            failed = error if isinstance(error, OSError) else OSError("it is not UTF-8")
            raise input_failure(f"token_file {path}", failed) from None
        if not content.startswith("{"):
            return self._one(content)
        out: dict[bytes, Holder] = {}
        for number, line in enumerate(content.splitlines(), 1):
            if not line.strip():
                continue
            try:
                holder = Holder(_Line.model_validate_json(line), self._now)
            except ValidationError as error:
                first = error.errors(include_url=False, include_context=False)[0]
                field = ".".join(map(str, first["loc"]))
                said = f"token_file {path}, line {number}: {field or 'it'}: {first['msg']}; correct it"
                raise ConfigError(said) from None
            if holder.key in out or holder.name in {one.name for one in out.values()}:
                raise ConfigError(f"token_file {path}, line {number}: {holder.name} stands there twice; rename one")
            out[holder.key] = holder
        return out


def tokens_of(settings: ServeSettings) -> Tokens | None:
    """Return the tokens that the settings name, ``None`` if clients need none.

    Raises:
        ConfigError: there are two tokens, a token is too short, or it is missing although other machines reach the
            address.
        Failure: the file cannot be read.
    """
    if settings.token is not None and settings.token_file is not None:
        raise ConfigError("token stands in the environment and token_file names a file: leave out one of them")
    if settings.token_file is not None:
        return Tokens(Path(settings.token_file))
    if settings.token is not None:
        return Tokens(None, settings.token.get_secret_value())
    if settings.insecure or is_loopback(settings.host):
        return None
    raise ConfigError(
        f"host is {settings.host}, which others can reach, and there is no token: set NEARDUP_TOKEN or token_file, "
        "or insecure if something in front of it checks who asks"
    )


def signed_query(query: bytes, path: str, holder: Holder) -> str:
    """Return a query with the name of a holder and a signature, which only a change of the token ends."""
    values = _unsigned(query)
    return urlencode([*values, ("reader", holder.name), ("signature", _signature(values, path, holder))])


def signed_by(query: bytes, path: str, tokens: Tokens) -> Holder | None:
    """Return the holder whose signature a query has."""
    values = dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True))
    holder = tokens.holder_of(values.get("reader", ""))
    if holder is None:
        return None
    expected = _signature(_unsigned(query), path, holder)
    return holder if hmac.compare_digest(values.get("signature", "").encode(), expected.encode()) else None


def _unsigned(query: bytes) -> list[tuple[str, str]]:
    values = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    return sorted(one for one in values if one[0] not in ("reader", "signature"))


def _signature(values: list[tuple[str, str]], path: str, holder: Holder) -> str:
    return hmac.new(holder.key, f"{path}?{urlencode(values)}".encode(), sha256).hexdigest()[:32]


def _stands(path: Path | None) -> tuple[int, ...]:
    """What changes with a file: its node, its size, its time."""
    try:
        found = os.stat(path) if path else None
    except OSError:
        found = None
    return () if found is None else (found.st_ino, found.st_size, found.st_mtime_ns)
