"""Brokers with the partitions they lead and host."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ruslo.client.admin.admin import Admin
from ruslo.client.wire.metadata import Node, TopicInfo
from ruslo.model.errors import ErrorCode, KafkaError


@dataclass(frozen=True, slots=True)
class BrokerView:
    node: Node
    fenced: bool
    leaders: int
    preferred: int
    """The number of partitions whose preferred leader is this broker."""
    replicas: int
    out_of_sync: int
    used_bytes: int | None
    """None when the broker is fenced, unreachable, or does not permit the request."""

    @property
    def state(self) -> str:
        return "fenced" if self.fenced else "active"

    def as_json(self) -> dict[str, object]:
        return {
            "id": self.node.id,
            "host": self.node.host,
            "port": self.node.port,
            "rack": self.node.rack,
            "fenced": self.fenced,
            "leaders": self.leaders,
            "preferred_leaders": self.preferred,
            "replicas": self.replicas,
            "out_of_sync": self.out_of_sync,
            "used_bytes": self.used_bytes,
        }


async def describe_brokers(admin: Admin) -> list[BrokerView]:
    description = await admin.brokers.describe_cluster()
    topics = await admin.topics.list()
    return [
        _view(node, fenced, topics, None if fenced else await _used_bytes(admin, node.id))
        for node, fenced in description.brokers
    ]


def _view(node: Node, fenced: bool, topics: Iterable[TopicInfo], used_bytes: int | None) -> BrokerView:
    held = [each for topic in topics for each in topic.partitions if node.id in each.replicas]
    return BrokerView(
        node,
        fenced,
        leaders=sum(each.leader_id == node.id for each in held),
        preferred=sum(each.replicas[0] == node.id for each in held),
        replicas=len(held),
        out_of_sync=sum(node.id not in each.isr for each in held),
        used_bytes=used_bytes,
    )


async def _used_bytes(admin: Admin, node_id: int) -> int | None:
    try:
        directories = await admin.log_dirs.describe(node_id)
    except KafkaError as error:
        if error.code in (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.BROKER_NOT_AVAILABLE):
            return None
        raise
    return sum(replica.size_bytes for each in directories for replica in each.replicas)
