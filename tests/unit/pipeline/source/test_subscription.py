from __future__ import annotations

import pytest

from ruslo.client.wire.metadata import ClusterMetadata, PartitionInfo, TopicInfo
from ruslo.model.errors import ConfigError
from ruslo.pipeline.option_values import OptionValues
from ruslo.pipeline.source.subscription import Subscription, parse_subscription


def cluster(**partitions: int) -> ClusterMetadata:
    topics = {
        name: TopicInfo(
            name, bytes(16), False, tuple(PartitionInfo(n, 1, 0, (1,), (1,), ()) for n in range(count))
        )
        for name, count in partitions.items()
    }
    return ClusterMetadata("c", 1, {}, topics)


def selected(subscription: Subscription, metadata: ClusterMetadata) -> list[str]:
    return [str(partition) for partition in subscription.select(metadata)]


def test_topics_by_name() -> None:
    found = parse_subscription(OptionValues({"subscribe": "b, a"}))
    assert found.metadata_topics() == ["a", "b"]
    assert selected(found, cluster(b=1, a=2, c=1)) == ["a-0", "a-1", "b-0"]
    assert found.missing(found.select(cluster(a=1))) == ["b"]


def test_a_pattern_matches_whole_names_and_no_internal_topics() -> None:
    found = parse_subscription(OptionValues({"subscribePattern": "or.*|__.*"}))
    assert found.metadata_topics() is None
    assert selected(found, cluster(orders=1, xorders=1, __consumer_offsets=1)) == ["orders-0"]
    assert found.missing({}) == []


def test_assigned_partitions() -> None:
    found = parse_subscription(OptionValues({"assign": '{"a": [1, 0], "b": [5]}'}))
    assert found.metadata_topics() == ["a", "b"]
    assert selected(found, cluster(a=3, b=1)) == ["a-0", "a-1"]
    assert found.missing(found.select(cluster(a=3, b=1))) == ["b-5"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "the topics to read are missing"),
        ({"assign": "a"}, "write it as JSON, such as"),
        ({"assign": "{}"}, "names no partition"),
        ({"assign": '{"a b": [0]}'}, "characters other"),
        ({"subscribePattern": "("}, "invalid regular expression"),
    ],
)
def test_invalid_subscriptions(options: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        parse_subscription(OptionValues(options))
