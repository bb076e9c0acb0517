"""The rights that `neardup topics rights` prints; a broker with an authorizer tries them in tests/kafka."""

from __future__ import annotations

import pytest

from neardup_workers.outside.options.running import RightsOptions
from neardup_workers.outside.process.exits import Failure
from neardup_workers.outside.settings.kafka import StreamSettings
from neardup_workers.outside.topics.names import names_of
from neardup_workers.running.commands.topics.rights import rights, rights_of


def test_rights_are_printed_for_the_names_of_the_settings(capsys: pytest.CaptureFixture[str]) -> None:
    """Without verdicts a matcher writes no links; a word that is no role is refused with the words that are."""
    settings = StreamSettings(topic_prefix="its.", bootstrap_servers="broker:9092", verdicts=False)
    rights(RightsOptions("sign", principal="User:one"), settings)
    start = "kafka-acls.sh --bootstrap-server broker:9092 --add --allow-principal User:one --operation"
    group = names_of(settings).group("sign")
    assert capsys.readouterr().out.splitlines() == [
        f"{start} Read --operation DescribeConfigs --topic its.documents",
        f"{start} Write --operation DescribeConfigs --topic its.documents.dead",
        f"{start} Write --operation DescribeConfigs --topic {names_of(settings).topics.signed}",
        f"{start} Read --operation DescribeConfigs --topic its.settings",
        f"{start} Read --group {group} --resource-pattern-type prefixed",
        f"{start} Write --transactional-id {group}- --resource-pattern-type prefixed",
    ]
    (links,) = [right for right in rights_of(settings, "match") if right.name == names_of(settings).topics.links]
    assert links.operations == ("Read", "DescribeConfigs")
    with pytest.raises(Failure, match=r"'x' has no rights of its own: name one of sign, .*, create, status"):
        rights(RightsOptions("x"), settings)
