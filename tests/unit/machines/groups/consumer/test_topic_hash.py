"""Hashes of topics and groups. Apache Kafka computed the expected values."""

from __future__ import annotations

from ruslo.machines.groups.consumer.topic_hash import group_hash, of_topics, topic_hash
from ruslo.machines.groups.topics_view import TopicInfo
from tests.support.groups.group_bench import Topics, topic_id

PLAIN = TopicInfo("orders", topic_id(1), 3)
RACKED = TopicInfo(
    "parcels",
    bytes(range(240, 256)),
    2,
    (frozenset({"a", "rack-b"}), frozenset({"\uffee", "\U0001f5c4"})),
)
PLAIN_HASH = -2084488436095635715
RACKED_HASH = -1218279145362042898
GROUP_HASH = 6166827534019015751


def test_topics() -> None:
    assert topic_hash(PLAIN) == PLAIN_HASH
    assert topic_hash(RACKED) == RACKED_HASH


def test_groups() -> None:
    both = [("parcels", RACKED_HASH), ("orders", PLAIN_HASH)]
    assert group_hash(both) == group_hash(reversed(both)) == GROUP_HASH
    assert group_hash([]) == 0


def test_missing_topics_do_not_count() -> None:
    view = Topics({"orders": 4, "parcels": 2})
    assert of_topics(view, {"orders", "absent"}) == of_topics(view, {"orders"})
    assert of_topics(view, {"absent"}) == 0
    assert of_topics(view, {"orders"}) != of_topics(view, {"orders", "parcels"})
    assert of_topics(view, {"orders"}) != of_topics(Topics({"orders": 5}), {"orders"})
