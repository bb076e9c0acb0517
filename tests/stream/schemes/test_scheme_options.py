"""Options of schemes: as a text, by name, and which are refused."""

from __future__ import annotations

from typing import Any

import pytest
from setting_tables import CHANGES

from neardup import Config, ConfigError
from neardup.schemes.rows import SCHEMES
from neardup.schemes.scheme_text import scheme_text, split_scheme


def test_a_scheme_is_given_with_its_options_as_a_text_or_by_name() -> None:
    """Lists have commas between values, and may be named again; values with an equals sign need that."""
    by_name = {"keys": ("phone", "name"), "bands": 8, "shingled": ("name",), "nicknames": ("bob=rob", "bill=will")}
    config = Config(scheme="records", scheme_options=by_name)
    for text in (
        "records:keys=phone,name,shingled=name,bands=8,nicknames=bob=rob,nicknames=bill=will",
        " records : bands = 8, nicknames = bob=rob, keys = phone, keys = name, shingled=name, nicknames = bill=will",
    ):
        assert Config(scheme=text) == config
    assert scheme_text(config.scheme, SCHEMES["records"].options(**by_name)).startswith("records:keys=phone,name,")
    assert (config.scheme, config.scheme_options) == ("records", SCHEMES["records"].options(**by_name))
    assert config.model_copy(update={"threshold": 0.5}).scheme_options == config.scheme_options
    assert config.model_copy(update={"scheme": "records"}) == Config(scheme="records")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_text_of_a_scheme_gives_its_options_again(scheme: str) -> None:
    """All that another value was given for; what stands in a file of its own is left out."""
    kind = SCHEMES[scheme].options
    values = {
        option: value
        for field, (value, _) in CHANGES.items()
        for name, _, option in [field.rpartition(":")]
        if name and SCHEMES[name].options is kind and option in kind.model_fields and option not in kind.in_files
    }
    name, options = split_scheme(scheme_text(scheme, kind(**values)))
    assert (name, kind(**options)) == (scheme, kind(**values))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"scheme": "records:bnads=3"},
            "unknown option 'bnads' of scheme records: its options are fields, keys, shing",
        ),
        (
            {"scheme": "records", "scheme_options": {"bnads": 3}},
            "unknown option 'bnads' of scheme records: its options",
        ),
        ({"scheme": "records:bands=3,bands=4"}, "has bands twice: leave one out"),
        ({"scheme": "records:keys="}, "option keys names '', which is not .*: name, address, phone; name one of them"),
        ({"scheme": "records:shingled=name,"}, "option shingled names ''"),
        ({"scheme": "records:3"}, "'3' is no option: write NAME=VALUE with commas between"),
        ({"scheme": "records:bands=3", "scheme_options": {"rows": 2}}, "leave one of them out"),
        ({"scheme_options": 5}, "must be options by name"),
        ({"scheme": "recods:bands=3"}, "did you mean 'records'"),
    ],
)
def test_options_that_a_scheme_cannot_have_are_refused(settings: dict[str, Any], message: str) -> None:
    """The message has the value, the rule and the remedy; of an unknown option, the options that there are."""
    with pytest.raises(ConfigError, match=message):
        Config(**settings)
