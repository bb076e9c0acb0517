"""Where a value stands in an object: its name, a path to it, or for a text several of them; and what text it holds.

A name that the object has wins. Else ``article.body`` leads through objects, and so does a JSON Pointer
(``/article/body``, RFC 6901). A list is entered by a number, and otherwise at each of its objects. The texts of
``title,body`` are joined, as are those of a list: of paragraphs, of messages of a chat, of the parts of a message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

_MISSING = object()
# Where an object in a list has its text: a message or its part, a paragraph, a turn of a conversation.
_TEXT_NAMES = ("content", "text", "value")
# Objects and lists of a text stand in each other so deep at most: messages in a list, their parts in lists.
_DEPTH_MAX = 8
# Between texts that are joined.
_BETWEEN = "\n\n"


def is_path(name: str) -> bool:
    """Whether a name may lead to more than the value of an object that has the name."""
    return not name.isidentifier() and ("." in name or "," in name or name.startswith("/"))


def names_of(name: str) -> list[str]:
    """Return the names in an object at which values of a name begin: itself, and those of its paths."""
    return list(dict.fromkeys([name, *(keys[0] for keys in paths_of(name))]))


def paths_in(value: Mapping[str, Any], depth: int = _DEPTH_MAX) -> Iterator[str]:
    """Yield the paths of what stands in an object and is no object itself, or stands so deep, in order.

    >>> list(paths_in({"id": 7, "docs": [{"meta": {"title": "One"}}]}))
    ['id', 'docs.meta.title']
    """
    for name, part in value.items():
        inner = part[0] if isinstance(part, list) and part else part
        if depth > 1 and isinstance(inner, dict) and inner:
            yield from (f"{name}.{path}" for path in paths_in(inner, depth - 1))
        else:
            yield name


def value_at(value: Mapping[str, Any], name: str) -> Any:
    """Return the value of a name or path, ``None`` if there is none.

    >>> value_at({"meta": {"id": 7}}, "meta.id"), value_at({"a.b": 1}, "a.b"), value_at({"a": [5, 6]}, "/a/1")
    (7, 1, 6)
    """
    if name in value:
        return value[name]
    found = _walk(value, paths_of(name)[0]) if is_path(name) else None
    return None if found is _MISSING else found


def has_field(value: Mapping[str, Any], name: str) -> bool:
    """Whether an object has a value of a name, or of one of the paths in it."""
    return name in value or (is_path(name) and any(_walk(value, keys) is not _MISSING for keys in paths_of(name)))


def text_at(value: Mapping[str, Any], name: str) -> str | None:
    """Return the text of a name or of paths, ``None`` if what stands there is no text.

    >>> text_at({"title": "One", "parts": ["Two", {"text": "Three"}]}, "title,parts")
    'One\\n\\nTwo\\n\\nThree'
    """
    given = [value[name]] if name in value else [_walk(value, keys) for keys in paths_of(name)]
    found = [_text_of(one, _DEPTH_MAX) for one in given if one is not _MISSING and one is not None]
    texts = [one for one in found if one is not None]
    return _BETWEEN.join(filter(None, texts)) if texts and len(texts) == len(found) else None


def _text_of(value: Any, depth: int) -> str | None:
    """Return a text, or the texts of a list or of an object with a text; ``None`` for any other value."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping) and depth:
        return next((_text_of(value[name], depth - 1) for name in _TEXT_NAMES if value.get(name) is not None), None)
    if not isinstance(value, list) or not depth:
        return None
    if any(not isinstance(one, str | Mapping | list) for one in value if one is not None):
        return None
    texts = [text for one in value if (text := _text_of(one, depth - 1)) is not None]  # a part may be a picture
    return _BETWEEN.join(filter(None, texts)) if texts or not value else None


def _walk(value: Any, keys: tuple[str, ...]) -> Any:
    """Return what stands at the end of a path."""
    for n, key in enumerate(keys):
        if isinstance(value, Mapping):
            value = value.get(key, _MISSING)
        elif isinstance(value, list) and key.isdecimal():
            value = value[int(key)] if len(key) < 10 and int(key) < len(value) else _MISSING
        elif isinstance(value, list):
            found = [_walk(one, keys[n:]) for one in value if isinstance(one, Mapping)]
            return [one for one in found if one is not _MISSING] or _MISSING
        else:
            return _MISSING
    return value


@lru_cache(maxsize=64)
def paths_of(name: str) -> tuple[tuple[str, ...], ...]:
    """Return the paths of a name, each as keys of objects one in the other."""
    return tuple(map(_keys, name.split(",")))


def _keys(path: str) -> tuple[str, ...]:
    path = path.strip()
    if path.startswith("/"):
        return tuple(key.replace("~1", "/").replace("~0", "~") for key in path[1:].split("/"))
    return tuple(path.split("."))
