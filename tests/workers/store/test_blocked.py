"""The block list: what was added is refused, from a file that people can edit."""

import errno
import os
import stat

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from quick_parameters import examples
from service_world import NEAR, NOW, TEXT, opened

from neardup import Config, ConfigError, Document, Signer
from neardup.pairs.batches import CONTENT_HALF
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.settings.serve import ServeSettings
from neardup_workers.outside.store.blocked import BlockList, read_block_list

SIGNER = Signer(Config())
NO_CONTENTS = np.empty(0, np.uint64)
# Ids that documents can have: no lone surrogates.
IDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


def refused(blocked, documents):
    """The refusals of documents, and the ids of the others."""
    signed = blocked.refuse(SIGNER.sign(documents))
    return [(one.position, one.id, one.reason) for one in signed.refusals], signed.batch.ids_at(
        np.arange(signed.batch.size)
    )


def content_of(text):
    return SIGNER.sign([Document("any", text)]).batch.contents[:, CONTENT_HALF].copy()


@settings(examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(IDS, st.sets(st.sampled_from("abc"))), max_size=6), st.lists(IDS, unique=True, max_size=6))
def test_what_was_added_is_refused_before_and_after_reading_the_file_again(tmp_path, added, others):
    """The law for any ids and contents, in any order; documents that cannot be used keep their places and reasons."""
    path = tmp_path / "blocked.jsonl"
    path.unlink(missing_ok=True)
    blocked = read_block_list(str(path), create=True)
    for id_, texts in added:
        blocked.append(id_, np.concatenate([NO_CONTENTS, *(content_of(f"text {text}") for text in texts)]))
    ids, texts = {id_ for id_, _ in added}, {f"text {text}" for _, some in added for text in some}
    asked = [(id_, f"text {text}") for id_ in (*others, *sorted(ids)) for text in "abcd"]
    documents = [Document("bad", ""), *(Document(*one) for one in asked), Document("bad", "")]
    found = [(n, id_, "blocked") for n, (id_, text) in enumerate(asked, 1) if id_ in ids or text in texts]
    expected = [(0, "bad", "empty"), *found, (len(asked) + 1, "bad", "empty")]
    for each in (blocked, read_block_list(str(path))):
        refusals, left = refused(each, documents)
        assert refusals == expected
        assert left == [id_ for n, (id_, _) in enumerate(asked, 1) if (n, id_, "blocked") not in found]
    lines = path.read_bytes().splitlines()
    assert len(lines) == len(set(lines)) == len(ids) + len(texts)


def test_the_file_is_its_owners_and_lines_of_people_stay(tmp_path):
    """A new file has the mode 0600. A last line without an end gets one; both keys may stand in one line."""
    path = tmp_path / "new.jsonl"
    read_block_list(str(path), create=True).append("a", NO_CONTENTS)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    [content] = content_of(TEXT).tolist()
    path.write_text(f'\n{{"content": "{content:016X}", "id": "b"}}')
    blocked = read_block_list(str(path))
    blocked.append("c\né", NO_CONTENTS)
    assert path.read_text().splitlines()[1:] == [f'{{"content": "{content:016X}", "id": "b"}}', '{"id": "c\\n\\u00e9"}']
    documents = [Document("b", NEAR), Document("c\né", NEAR), Document("d", TEXT), Document("e", NEAR)]
    assert refused(read_block_list(str(path)), documents)[1] == ["e"]


@pytest.mark.parametrize(
    "line",
    [
        "a", "[]", "{}", '"a"', '{"id": 1}', '{"id": null}', '{"content": "12"}', '{"content": 12}', '{"ids": "a"}',
        '{"id": "a", "content": "0123456789abcdeg"}', '{"id": "a"', "[" * 100_000, "\xff",
    ],
    ids=lambda line: line[:20],
)  # fmt: skip
def test_a_bad_line_is_named_with_rule_and_remedy(tmp_path, line):
    """No document is let through because of a line that nothing can read."""
    path = tmp_path / "blocked.jsonl"
    path.write_bytes(b'{"id": "a"}\n\n' + line.encode("latin-1") + b'\n{"id": "b"}\n')
    with pytest.raises(ConfigError, match=r"line 3 of the block list .*blocked\.jsonl is .*correct or delete the line"):
        read_block_list(str(path))


def test_a_file_that_cannot_be_opened_is_an_error(tmp_path):
    """Only the service makes a missing file: a misspelled name elsewhere would block nothing."""
    with pytest.raises(Failure, match="cannot read the block list") as failure:
        read_block_list(str(tmp_path / "missing"))
    assert failure.value.code == Exit.INPUT
    with pytest.raises(Failure, match="cannot write the block list") as failure:
        read_block_list(str(tmp_path), create=True)
    assert failure.value.code == Exit.OUTPUT


@pytest.mark.parametrize("name", ["write", "fsync"])
def test_a_failed_write_leaves_file_and_list_as_they_were(tmp_path, monkeypatch, name):
    """Half a line is cut off again; the next try succeeds."""
    path, real = tmp_path / "blocked.jsonl", os.write
    blocked = read_block_list(str(path), create=True)
    blocked.append("a", NO_CONTENTS)
    before = path.read_bytes()

    def fail(file, data=b""):
        if data:
            real(file, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "no room")

    with monkeypatch.context() as patch:
        patch.setattr(os, name, fail)
        with pytest.raises(OSError, match="no room"):
            blocked.append("b", NO_CONTENTS)
    assert path.read_bytes() == before
    assert refused(blocked, [Document("b", TEXT)])[1] == ["b"]
    blocked.append("b", NO_CONTENTS)
    assert refused(read_block_list(str(path)), [Document("b", TEXT)])[1] == []


def test_a_list_without_a_file_refuses_to_grow():
    """Else a removal would be answered and forgotten at the next start."""
    with pytest.raises(OSError, match="no block list"):
        BlockList().append("a", NO_CONTENTS)


def test_a_blocked_document_is_not_stored_and_renews_nothing(tmp_path):
    """It takes no place, and no version; the copies under other ids keep their story. All versions in the window are
    blocked by content."""
    keeper = opened(tmp_path / "state", ServeSettings(blocked=str(tmp_path / "blocked.jsonl"), threshold=0.7))
    texts = [TEXT, NEAR, "Nothing in common with the others, not a word of it at all."]
    keeper.check([Document("a", text, NOW) for text in texts])
    keeper.check([Document("copy", TEXT, NOW)])
    assert keeper.remove("a", block=True) == 3
    places, counts = keeper.log.meta()["places"], keeper.counts()
    answers = keeper.check([Document(id_, text, NOW + 9) for id_ in ("a", "b") for text in texts])
    assert [answer.refused for answer in answers] == ["blocked"] * 6
    assert (keeper.log.meta()["places"], keeper.counts()) == (places, counts)
    [mixed, free] = keeper.check([Document("a", "x" + TEXT, NOW), Document("free", "Words of its own, all new.", NOW)])
    assert (mixed.refused, free.verdict["place"]) == ("blocked", places)
    keeper.log.close()


def test_a_crash_between_list_and_removal_leaves_the_id_blocked(tmp_path, monkeypatch):
    """The file is written first: after the restart the document is still there, and comes in no more."""
    settings = ServeSettings(blocked=str(tmp_path / "blocked.jsonl"))
    keeper = opened(tmp_path / "state", settings)
    keeper.check([Document("a", TEXT, NOW)])
    monkeypatch.setattr(keeper.log, "erase", lambda id_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        keeper.remove("a", block=True)
    keeper.log.close()
    keeper = opened(tmp_path / "state", settings)
    assert [answer.refused for answer in keeper.check([Document(id_, TEXT, NOW) for id_ in "ab"])] == ["blocked"] * 2
    assert keeper.remove("a", block=True) == 1
    keeper.log.close()
