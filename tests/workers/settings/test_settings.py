"""Settings from the command line, the environment and a file."""

import pytest

from neardup.errors import ConfigError
from neardup.pairs.json_lines import Fields
from neardup.schemes.config import Config
from neardup.schemes.scheme_text import split_scheme
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.readers.field_names import FieldNames
from neardup_workers.outside.settings.files import Settings, fields_of
from neardup_workers.outside.settings.load import FILE_DEFAULT, changed, load
from neardup_workers.outside.settings.presets import PRESETS


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path):
    """Remove the settings of the environment."""
    import os

    for name in list(os.environ):
        if name.upper().startswith("NEARDUP_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def test_without_any_place_the_defaults_of_the_library_hold():
    """Settings are a ``Config``, and equal to the default one."""
    settings = load({})
    assert isinstance(settings, Config)
    assert Config(**{name: getattr(settings, name) for name in Config.model_fields}) == Config()


def test_the_command_line_overrides_the_environment_which_overrides_the_file(monkeypatch, tmp_path):
    """The order applies to each setting separately."""
    (tmp_path / FILE_DEFAULT).write_text("threshold = 0.5\nrecall = 0.9\nseed = 7\n")
    monkeypatch.setenv("NEARDUP_THRESHOLD", "0.6")
    monkeypatch.setenv("NEARDUP_RECALL", "0.8")
    settings = load({"threshold": 0.7})
    assert (settings.threshold, settings.recall, settings.seed) == (0.7, 0.8, 7)


def test_a_file_that_is_named_replaces_the_one_in_the_folder(tmp_path):
    """They are not mixed."""
    (tmp_path / FILE_DEFAULT).write_text("seed = 7\n")
    (tmp_path / "other.toml").write_text('shingles = "words"\nlanguages = ["de", "en"]\nfold = "case"\n')
    settings = load({}, "other.toml")
    assert (settings.seed, settings.shingles, settings.languages, settings.fold) == (
        1,
        "words",
        ("de", "en"),
        ("case",),
    )


def test_the_environment_holds_lists_with_commas_and_empty_is_nothing(monkeypatch):
    """An empty variable is unset; a variable in lower case is the same setting."""
    monkeypatch.setenv("NEARDUP_LANGUAGES", "de, en")
    monkeypatch.setenv("NEARDUP_THRESHOLD", "")
    monkeypatch.setenv("neardup_strict", "true")
    settings = load({})
    assert (settings.languages, settings.threshold, settings.strict) == (("de", "en"), 0.8, True)


def test_a_list_is_a_text_with_commas_in_every_source(monkeypatch, tmp_path):
    """Of the command line, --set, the environment, the file and a program."""
    found = [load({"languages": "de, en"}), load(changed({}, ["languages=de,en"])), load({"languages": ("de", "en")})]
    (tmp_path / "neardup.toml").write_text('languages = "de,en"')
    found.append(load({}))
    monkeypatch.setenv("NEARDUP_LANGUAGES", "de,en")
    found.append(load({}, None))
    assert {settings.languages for settings in found} == {("de", "en")}


def test_options_of_a_program_stand_next_to_their_scheme():
    """They add to those in the text of the scheme."""
    settings = load({"scheme": "records:keys=phone", "scheme_options": {"bands": 4}})
    assert (settings.scheme_options.keys, settings.scheme_options.bands) == (("phone",), 4)


def test_every_setting_can_come_from_every_place(monkeypatch, tmp_path):
    """This holds for fields of the library and of the input."""
    values = {
        name: value for name, value in Settings().model_dump(exclude={"scheme_options"}).items() if value is not None
    }
    rows = [f"{name} = {_toml(value)}" for name, value in values.items()]
    (tmp_path / "all.toml").write_text("\n".join(rows))
    assert load({}, "all.toml").model_dump() == Settings().model_dump()
    for name, value in values.items():
        monkeypatch.setenv(f"NEARDUP_{name.upper()}", ",".join(value) if isinstance(value, tuple) else str(value))
    assert load({}).model_dump() == Settings().model_dump()


def _toml(value):
    if isinstance(value, bool):
        return str(value).lower()
    return str(list(value)) if isinstance(value, tuple) else repr(value)


def test_fields_name_the_parts_of_a_document(monkeypatch):
    """From every place, with the collection that the library asks for; a copy may be without it."""
    monkeypatch.setenv("NEARDUP_FIELDS", "id=doc, time=published")
    assert load({}).field_names == FieldNames(id="doc", time="published")
    settings = load({"fields": ["collection=feed", "text=a=b"]})
    assert (settings.field_names.text, settings.collection_field) == ("a=b", "feed")
    assert settings.model_copy(update={"collection_field": None}).collection_field is None
    named = Fields("id", "a=b", collection="feed", source="source")
    assert fields_of(settings, sources=True) == named


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        (["body"], "must be PART=NAME of the parts id, text, time"),
        (["text="], "must be PART=NAME"),
        (["timestamp=at"], "must be PART=NAME"),
        (["id=a", "id=b"], "must name each part once, and id is a and b"),
    ],
)
def test_fields_of_another_form_are_refused(fields, rule):
    """The message has the value, the rule and the parts."""
    with pytest.raises(ConfigError, match=f"fields=.*{rule}"):
        load({"fields": fields})


def test_options_of_one_scheme_add_up(monkeypatch, tmp_path):
    """The first place that names an option decides; a place that names another scheme brings its own options alone."""
    (tmp_path / FILE_DEFAULT).write_text('scheme = "records:bands=8,rows=3,keys=phone"\n')
    monkeypatch.setenv("NEARDUP_SCHEME", "records:rows=2,shingled=name")
    assert load({}) == load({"scheme": "records"}) == load({"scheme": "records:bands=8"})
    options = load({"scheme": "records:bands=4"}).scheme_options
    assert (options.bands, options.rows, options.keys, options.shingled) == (4, 2, ("phone",), ("name",))
    assert load({"scheme": "minhash"}).scheme_options == Config(scheme="minhash").scheme_options
    with pytest.raises(ConfigError, match=r"unknown option 'rows' of scheme minhash"):
        load({"scheme": "minhash:rows=2"})
    with pytest.raises(ConfigError, match=r"scheme_options in --set is a setting of the library alone: give the opt"):
        changed({}, ["scheme_options=rows"])


def test_unknown_names_are_refused_where_they_stand(monkeypatch, tmp_path):
    """The message suggests the nearest known name."""
    (tmp_path / "bad.toml").write_text("window-seconds = 3\n")
    with pytest.raises(ConfigError, match=r"unknown setting window-seconds in bad\.toml; did you mean window_seconds"):
        load({}, "bad.toml")
    monkeypatch.setenv("NEARDUP_TRESHOLD", "0.9")
    with pytest.raises(ConfigError, match="NEARDUP_TRESHOLD in the environment; did you mean NEARDUP_THRESHOLD"):
        load({})


def test_a_value_that_cannot_work_says_where_it_came_from(monkeypatch, tmp_path):
    """The message has the value, the rule and the place."""
    (tmp_path / FILE_DEFAULT).write_text("recall = 2\n")
    monkeypatch.setenv("NEARDUP_SEED", "x")
    with pytest.raises(
        ConfigError, match=r"recall=2: .*with NEARDUP_SEED from the environment and recall from neardup"
    ):
        load({})


def test_a_file_that_is_missing_or_no_toml_is_refused(tmp_path):
    """One sentence each."""
    with pytest.raises(Failure, match=r"cannot read the settings in none.toml: No such file") as failure:
        load({}, "none.toml")
    assert failure.value.code == Exit.INPUT
    (tmp_path / "bad.toml").write_text("threshold =\n")
    with pytest.raises(ConfigError, match=r"bad.toml is not TOML"):
        load({}, "bad.toml")
    (tmp_path / FILE_DEFAULT).symlink_to("gone.toml")
    with pytest.raises(Failure, match=r"cannot read the settings in neardup.toml: No such file"):
        load({})


def test_a_file_may_begin_with_the_mark_of_utf_8(tmp_path):
    """Editors of Windows write it."""
    (tmp_path / FILE_DEFAULT).write_bytes(b"\xef\xbb\xbfthreshold = 0.5\n")
    assert load({}).threshold == 0.5


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("48h", 172_800), ("2d", 172_800), ("1h30m", 5400), ("500ms", 0.5), ("90", 90), ("1 w", 604_800)],
)
def test_a_duration_may_have_units(monkeypatch, tmp_path, text, seconds):
    """Every place of settings accepts units."""
    assert load({"window_seconds": text}).window_seconds == seconds
    monkeypatch.setenv("NEARDUP_LATENESS_SECONDS", text)
    (tmp_path / FILE_DEFAULT).write_text(f'story_seconds_max = "{text}"\n')
    assert (load({}).lateness_seconds, load({}).story_seconds_max) == (seconds, seconds)


def test_what_is_no_duration_is_refused_with_the_units():
    """The message names the setting."""
    for text in ("soon", "3 years", "h", "1h or so"):
        with pytest.raises(ConfigError, match=r"window_seconds='.*as in 48h or 1h30m"):
            load({"window_seconds": text})


@pytest.mark.parametrize("name", PRESETS)
def test_every_source_overrides_a_preset_and_each_preset_is_valid(monkeypatch, tmp_path, name):
    """Every place overrides its values; every place can name the preset."""
    preset = PRESETS[name]
    assert preset.reason
    settings = load({"preset": name})
    scheme, options = split_scheme(preset.values.get("scheme", settings.scheme))
    values = {**preset.values, "scheme": scheme}
    assert {field: getattr(settings, field) for field in values} == values
    assert {option: str(getattr(settings.scheme_options, option)) for option in options} == options
    monkeypatch.setenv("NEARDUP_PRESET", name)
    (tmp_path / FILE_DEFAULT).write_text("threshold = 0.77\n")
    assert load({}).threshold == 0.77
    assert load({"threshold": 0.66}).threshold == 0.66
    with pytest.raises(ConfigError, match="preset='newz': must be one of news"):
        load({"preset": "newz"})
