"""Documents in chunks, in which they are signed and matched."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from neardup.documents.document import Document, check_type

# Texts are signed and matched in chunks of about this many characters: enough that the calls cost little, few enough
# that the code points stay in the last cache.
CHUNK_CHARACTERS = 1 << 20
# And of this many documents at most: the calls of a chunk cost as much as 50 short texts, a tenth of the time of 500.
CHUNK_DOCUMENTS = 2048
_RULE = "documents are an iterable of neardup.Document; process_table takes tables"


def chunks(documents: Iterable[Document]) -> Iterable[list[Document]]:
    """Consecutive documents, ``CHUNK_CHARACTERS`` or ``CHUNK_DOCUMENTS`` at a time, in lists of their own. An exception
    of the iterable comes after the documents before it."""
    if type(documents) is list and len(documents) == 1 and type(documents[0]) is Document:
        return (documents.copy(),)  # as a feed calls: a generator takes three times as long
    return _chunks(documents)


def _chunks(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """The same for any documents."""
    if type(documents) is not list:
        check_type(documents, Iterable, _RULE)
        if isinstance(documents, Document):  # a tuple, so its fields would be taken for documents
            raise TypeError(f"one Document is given, but {_RULE}: put it into a list")
    chunk: list[Document] = []
    characters = 0
    try:
        for document in documents:
            if type(document) is not Document:
                check_type(document, Document, _RULE)
            chunk.append(document)
            characters += len(text) if isinstance(text := document.text, str) else 0
            if characters >= CHUNK_CHARACTERS or len(chunk) == CHUNK_DOCUMENTS:
                whole, chunk, characters = chunk, [], 0
                yield whole
    except Exception:
        if chunk:
            yield chunk
        raise
    if chunk:
        yield chunk
