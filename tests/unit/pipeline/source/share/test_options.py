from __future__ import annotations

import pytest

from ruslo.machines.share_partition.states import AcknowledgeType
from ruslo.model.errors import ConfigError
from ruslo.pipeline.source.options import SourceOptions
from ruslo.pipeline.source.schema import schema_ddl

BASE = {"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "orders", "share.group.id": "workers"}


def test_a_share_group_adds_the_delivery_count() -> None:
    options = SourceOptions.parse(BASE, streaming=True)
    assert options.share is not None
    assert (options.share.group_id, options.share.on_failure) == ("workers", AcknowledgeType.RELEASE)
    assert schema_ddl(options).endswith("delivery_count INT")
    assert not options.read_committed
    plain = {name: value for name, value in BASE.items() if name != "share.group.id"}
    assert "delivery_count" not in SourceOptions.parse(plain, streaming=True).columns


def test_columns_and_acknowledgement_can_be_chosen() -> None:
    given = {**BASE, "columns": "value,delivery_count", "share.on.failure": "reject"}
    options = SourceOptions.parse(given, streaming=True)
    assert options.columns == ("value", "delivery_count")
    assert options.share is not None
    assert options.share.on_failure is AcknowledgeType.REJECT


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"startingOffsets": "earliest"}, r"share\.auto\.offset\.reset of the group decides"),
        ({"isolation": "read_committed"}, r"share\.isolation\.level of the group decides"),
        ({"scan": "direct"}, "tasks fetch the acquired records"),
        ({"maxBytesPerTrigger": "1m"}, "use maxOffsetsPerTrigger"),
        ({"group.id": "a"}, "no offsets to publish"),
        ({"share.on.failure": "retry"}, "use release or reject"),
        ({"share.group.id": " "}, "name a share group"),
        ({"share.groupid": "a"}, r"Did you mean 'share\.group\.id'"),
    ],
)
def test_options_that_a_share_group_cannot_have(extra: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SourceOptions.parse({**BASE, **extra}, streaming=True)


def test_topics_are_given_by_name() -> None:
    given = {name: value for name, value in BASE.items() if name != "subscribe"}
    with pytest.raises(ConfigError, match=r"share\.group\.id needs topics by name: set subscribe"):
        SourceOptions.parse({**given, "subscribePattern": "o.*"}, streaming=True)


def test_a_batch_query_cannot_read_as_a_share_group() -> None:
    with pytest.raises(ConfigError, match="use readStream"):
        SourceOptions.parse(BASE, streaming=False)


def test_options_of_share_groups_need_a_group() -> None:
    plain = {name: value for name, value in BASE.items() if name != "share.group.id"}
    with pytest.raises(ConfigError, match=r"set share\.group\.id as well"):
        SourceOptions.parse({**plain, "share.on.failure": "reject"}, streaming=True)
