"""The new text of a letter: what stands in it besides quotes, signatures, footers of lists and PGP."""

import pytest

from neardup.pairs.json_lines import Fields
from neardup_workers.outside.process.stop import Stop
from neardup_workers.outside.readers.mail.quotes import new_text
from neardup_workers.outside.readers.reader import EntryReader
from neardup_workers.outside.settings.files import Reading, Settings

# Name -> a letter, and its new text; two libraries were judged on these.
LETTERS = {
    "inline": (
        "On Tue, 14 Nov 2023 at 22:13, Ann Lee <ann@a.example> wrote:\n"
        "> Shall we sail on Friday?\n"
        "\n"
        "Yes, at nine.\n"
        "\n"
        "> And who brings the food?\n"
        "\n"
        "I do.\n"
        "\n"
        "-- \n"
        "Bob\n"
        "Harbour office\n",
        "Yes, at nine.\n\nI do.",
    ),
    "top": (
        "Fine with me, see you there.\n"
        "\n"
        "On 14.11.2023 22:13, Ann Lee wrote:\n"
        "> Shall we sail on Friday?\n"
        "> And who brings the food?\n",
        "Fine with me, see you there.",
    ),
    "outlook": (
        "Fine with me, see you there.\n"
        "\n"
        "-----Original Message-----\n"
        "From: Ann Lee <ann@a.example>\n"
        "Sent: Tuesday, November 14, 2023 22:13\n"
        "To: Bob\n"
        "Subject: Friday\n"
        "\n"
        "Shall we sail on Friday?\n",
        "Fine with me, see you there.",
    ),
    "outlook2": (
        "Fine with me, see you there.\n"
        "\n"
        "________________________________\n"
        "From: Ann Lee <ann@a.example>\n"
        "Sent: Tuesday, November 14, 2023 22:13\n"
        "To: Bob <bob@b.example>\n"
        "Subject: Friday\n"
        "\n"
        "Shall we sail on Friday?\n",
        "Fine with me, see you there.",
    ),
    "german": (
        "Passt mir gut.\n\nAm 14.11.2023 um 22:13 schrieb Ann Lee:\n> Segeln wir am Freitag?\n",
        "Passt mir gut.",
    ),
    "wrapped": (
        "Fine with me.\n"
        "\n"
        "On Tue, Nov 14, 2023 at 10:13 PM Ann Lee with a very long name indeed\n"
        "<ann.lee@a.long.example> wrote:\n"
        "> Shall we sail on Friday?\n",
        "Fine with me.",
    ),
    "list": (
        "The build is broken since Monday.\n"
        "_______________________________________________\n"
        "Python-Dev mailing list -- python-dev@python.example\n"
        "To unsubscribe send an email to python-dev-leave@python.example\n",
        "The build is broken since Monday.",
    ),
    "pgp": (
        "-----BEGIN PGP SIGNED MESSAGE-----\n"
        "Hash: SHA256\n"
        "\n"
        "The key is new.\n"
        "- -- \n"
        "Ann\n"
        "-----BEGIN PGP SIGNATURE-----\n"
        "\n"
        "iQEzBAEBCAAdFiEE\n"
        "=abcd\n"
        "-----END PGP SIGNATURE-----\n",
        "The key is new.",
    ),
    "new": (
        "Hello all,\n"
        "\n"
        "the harbour is closed. He wrote: nothing. On Friday we wrote:\n"
        "a letter, and x > y holds.\n"
        "\n"
        "Regards\n"
        "Ann\n",
        "Hello all, the harbour is closed. He wrote: nothing. On Friday we wrote: a letter, and x > y holds. "
        "Regards Ann",
    ),
    "code": (
        "Run this:\n\n    >>> 1 + 1\n    2\n\nand -- well -- look.\n",
        "Run this:\n\n    >>> 1 + 1\n    2\n\nand -- well -- look.",
    ),
    "forward": (
        "FYI.\n"
        "\n"
        "---------- Forwarded message ---------\n"
        "From: Ann Lee <ann@a.example>\n"
        "Date: Tue, 14 Nov 2023\n"
        "Subject: Friday\n"
        "\n"
        "Shall we sail on Friday?\n",
        "FYI. ---------- Forwarded message --------- From: Ann Lee <ann@a.example> Date: Tue, 14 Nov 2023 "
        "Subject: Friday Shall we sail on Friday?",
    ),
    "only quote": ("> Shall we sail?\n", "> Shall we sail?"),
    "french": (
        "D'accord.\n\nLe mar. 14 nov. 2023 à 22:13, Ann Lee <ann@a.example> a écrit :\n> On navigue vendredi ?\n",
        "D'accord.",
    ),
    "bottom": (
        "Ann Lee wrote:\n> Shall we sail on Friday?\n> And who brings the food?\n\nYes, at nine. I bring the food.\n",
        "Yes, at nine. I bring the food.",
    ),
    "supercite": ("Ann Lee <ann@a.example> writes:\n\n> Shall we sail?\n>> Deeper\nNo.\n--\nBob\n", "No."),
}


def words(text):
    return " ".join(text.split())


@pytest.mark.parametrize("name", LETTERS)
def test_the_new_text_of_a_letter_is_what_it_adds(name):
    """Answers between and around quotes, introductions in several languages, and letters that quote nothing."""
    letter, new = LETTERS[name]
    assert words(new_text(letter)) == words(new)
    assert words(new_text(letter.replace("\n", "\r\n"))) == words(new)


@pytest.mark.parametrize(
    "text",
    [
        "a\n" + "_" * 30 + "\n" + "A section of its own.\n" * 30,
        "2 > 1\nx -- y\n--- \n",
        "From: here to there\nwe sail.\n",
        "",
    ],
)
def test_a_text_that_only_looks_like_it_stays(text):
    """A rule between sections, signs of comparison, dashes, a sentence that begins like a header."""
    assert words(new_text(text)) == words(text)


@pytest.mark.parametrize("name", ["in.eml", "in.mbox"])
def test_five_answers_above_one_long_letter_are_five_texts(tmp_path, name):
    """As a file, and in an mbox; by default all of the text counts."""
    quoted = "".join(f"> The ferry to island {n} sails again on Friday.\n" for n in range(40))
    text = "Fine with me.\n\nOn Tue, 14 Nov 2023 at 22:13, Ann <ann@a.example> wrote:\n" + quoted
    begin = "From a@b.example Tue Nov 14 22:13:20 2023\n" if name == "in.mbox" else ""
    path = tmp_path / name
    path.write_text(f"{begin}Return-Path: <a@b.example>\nMessage-ID: <1@b.example>\n\n{text}\n")

    def read(**options):
        reader = EntryReader(Reading(**options), Fields(), Stop(), lambda part: None)
        return [entry.found.text for entry in reader.read([str(path)])]

    assert read(mail_text="new") == ["Fine with me.\n"]
    assert [words(one) for one in read()] == [words(text)]
    with pytest.raises(ValueError, match=r"mail_text.*must be one of whole, new"):
        Settings(mail_text="old")
