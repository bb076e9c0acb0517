"""Where collections are possible: everywhere but in a signed window that is signed again."""

import pytest

from neardup_workers.outside.settings.kafka import FeedSettings, StreamSettings
from neardup_workers.outside.settings.serve import ServeSettings, ViewSettings


@pytest.mark.parametrize("settings", [StreamSettings, ViewSettings, FeedSettings, ServeSettings])
def test_every_command_takes_collections(settings: type[StreamSettings]) -> None:
    """The setting is one of the library; so a settings file serves all commands."""
    assert settings(fields=("collection=lang",)).separate
