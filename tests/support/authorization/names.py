"""The few names that all requests and ACL sets share."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any, NamedTuple, TypeAlias

from ruslo.machines.controller.config_image import BROKER, GROUP, TOPIC

TOPICS = ("orders", "orders.eu", "payments", "Orders")
INTERNAL = "__consumer_offsets"
DOOMED = ("doomed", "doomed.eu")
ABSENT = ("absent", "orders.absent")
GROUPS = ("billing", "billing-eu", "shop")
LIVE_GROUP = "shop-live"
"""A group of the consumer protocol with a member, whose topics are ``LIVE_TOPICS``."""
SHARE_GROUP = "shop-share"
"""A share group without members."""
ABSENT_GROUP = "shop-absent"
TRANSACTIONAL_IDS = ("tx", "tx-eu", "load")
OPEN_TRANSACTION = "load-open"
"""A transactional id with an open transaction in ``LIVE_TOPICS``."""
ABSENT_TRANSACTIONAL_ID = "tx-absent"
LIVE_TOPICS = ("orders", "payments")
ABSENT_ID = bytes(15) + b"\x09"
NODE_ID = "1"
STRANGER = "stranger"
UNKNOWN_PRODUCER_ID = 987_654_321

Fields: TypeAlias = dict[str, Any]


class Names(NamedTuple):
    """What one request may name, and the random source of its choices."""

    random: Random
    version: int
    topic_ids: Mapping[str, bytes]
    tokens: Mapping[str, bytes]
    """The HMAC of each user's delegation token."""
    users: tuple[str, ...]

    def some(self, names: tuple[str, ...]) -> list[str]:
        return self.random.sample(names, self.random.randint(1, min(3, len(names))))

    def topics(self) -> list[str]:
        return self.some((*TOPICS, *ABSENT))

    def topic_id(self, name: str) -> bytes:
        return self.topic_ids.get(name, ABSENT_ID[:-1] + bytes([len(name)]))

    def topics_and_ids(self) -> list[Fields]:
        return [{"name": name, "topic_id": self.topic_id(name)} for name in self.topics()]

    def group(self) -> str:
        return self.random.choice((*GROUPS, LIVE_GROUP, ABSENT_GROUP))

    def groups(self) -> list[str]:
        return self.some((*GROUPS, LIVE_GROUP, ABSENT_GROUP))

    def transactional_id(self) -> str:
        return self.random.choice(TRANSACTIONAL_IDS)

    def config_resource(self) -> tuple[int, str, str, str]:
        """Type and name of a config resource, and one of its configs with a value."""
        return self.random.choice(
            [
                *((TOPIC, name, "retention.ms", "86400000") for name in (*TOPICS, *ABSENT)),
                *((GROUP, name, "consumer.session.timeout.ms", "45000") for name in GROUPS),
                (BROKER, "", "message.max.bytes", "1048588"),
                (BROKER, NODE_ID, "message.max.bytes", "1048588"),
            ]
        )
