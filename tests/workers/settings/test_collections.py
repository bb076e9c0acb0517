"""Where collections are not possible, the setting is refused with the remedy."""

import pytest

from neardup.stream import ConfigError
from neardup.workers.settings.feed import FeedSettings
from neardup.workers.settings.kafka import StreamSettings
from neardup.workers.settings.serve import ServeSettings, ViewSettings


@pytest.mark.parametrize("settings", [StreamSettings, ViewSettings, FeedSettings])
def test_topics_and_feeds_refuse_collections(settings: type[StreamSettings]) -> None:
    """The sentence names the commands that have them."""
    with pytest.raises(ConfigError, match=r"collection_field='lang'.*use run, dedup, batch or serve"):
        settings(collection_field="lang")


def test_files_and_the_service_take_collections() -> None:
    """The setting is one of the library."""
    assert ServeSettings(collection_field="lang").separate
