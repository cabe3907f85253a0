"""A share group with its members, and its share-partitions with their lag and what is in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import NamedTuple

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.group_descriptions import GroupDescription
from ruslo.client.views.broker_metrics import BrokerMetrics, read_gauges
from ruslo.client.views.group_lag import end_offsets
from ruslo.client.views.group_view import head_json
from ruslo.client.wire.by_topic import indexes_by_topic
from ruslo.client.wire.coordinators import value_of
from ruslo.model.topics import TopicPartition
from ruslo.model.units import sum_known

IN_FLIGHT = "kafka_server_sharepartitionmetrics_inflightmessagecount"
LOCKED = "ruslo_share_partition_locked_records"
OLDEST_LOCK = "ruslo_share_partition_oldest_lock_seconds"
DELIVERIES_MAX = "ruslo_share_partition_delivery_count_max"
_LABELS = ("group", "topic", "partition")


class InFlight(NamedTuple):
    """What the leader of a share-partition has in memory; None is unknown."""

    records: int | None
    """Records that are delivered, or that were and became available again."""
    locked: int | None
    oldest_lock_s: float | None
    """The age of the oldest lock; None without a lock."""
    deliveries_max: int | None
    """The highest delivery count of a record; None without records in flight."""


_UNKNOWN = InFlight(None, None, None, None)


@dataclass(frozen=True, slots=True)
class SharePartitionRow:
    topic: str
    partition: int
    start_offset: int | None
    end_offset: int | None
    lag: int | None
    in_flight: int | None
    locked: int | None
    oldest_lock_s: float | None
    deliveries_max: int | None
    members: tuple[str, ...]
    """The ids of the members that have the partition: several may have it."""
    error: str | None


@dataclass(frozen=True, slots=True)
class ShareGroupView:
    description: GroupDescription
    coordinator_address: str
    partitions: tuple[SharePartitionRow, ...]

    @property
    def lag(self) -> int | None:
        return sum_known(row.lag for row in self.partitions)

    @property
    def in_flight(self) -> int | None:
        return sum_known(row.in_flight for row in self.partitions)

    def as_json(self) -> dict[str, object]:
        group = self.description
        return {
            **head_json(group),
            "lag": self.lag,
            "in_flight": self.in_flight,
            "partitions": [asdict(row) for row in self.partitions],
            "members": [
                {
                    "member_id": member.member_id,
                    "client_id": member.client_id,
                    "host": member.host,
                    "rack_id": member.rack_id,
                    "epoch": member.epoch,
                    "subscribed_topics": list(member.subscribed_topics),
                    "assignment": indexes_by_topic(member.assignment or ()),
                }
                for member in group.members
            ],
        }


async def describe_share_group(
    admin: Admin, group_id: str, metrics: BrokerMetrics | None = None
) -> ShareGroupView:
    """``metrics``: a client of the brokers' metrics that is used again, such as the console's."""
    description, offsets = await asyncio.gather(
        describe_one_share_group(admin, group_id), admin.share_group_offsets.fetch(group_id)
    )
    members: dict[TopicPartition, list[str]] = {}
    for member in description.members:
        for tp in member.assignment or ():
            members.setdefault(tp, []).append(member.member_id)
    partitions = sorted({*offsets, *members})
    ends = await end_offsets(admin, dict.fromkeys(partitions))
    nodes = (await admin.cluster.metadata([])).nodes
    texts = await (metrics or BrokerMetrics(admin)).scrape(nodes)
    in_flight = read_in_flight(texts.values(), group_id)
    rows = []
    for tp in partitions:
        offset, live = offsets.get(tp), in_flight.get(tp, _UNKNOWN)
        error = None if offset is None else offset.error
        rows.append(
            SharePartitionRow(
                *tp,
                None if offset is None else offset.start_offset,
                ends.get(tp),
                None if offset is None else offset.lag,
                live.records,
                live.locked,
                live.oldest_lock_s,
                live.deliveries_max,
                tuple(members.get(tp, ())),
                None if error is None else error.code.name,
            )
        )
    node = nodes.get(description.coordinator_id)
    return ShareGroupView(description, "" if node is None else node.address, tuple(rows))


async def describe_one_share_group(admin: Admin, group_id: str) -> GroupDescription:
    return value_of((await admin.share_groups.describe([group_id]))[group_id])


def read_in_flight(expositions: Iterable[bytes], group_id: str) -> Mapping[TopicPartition, InFlight]:
    """What is in flight in a group, by partition, from the metrics of the brokers."""
    found: dict[TopicPartition, InFlight] = {}
    for text in expositions:
        gauges = {name: read_gauges(text, name, _LABELS) for name in _NAMES}
        for key, records in gauges[IN_FLIGHT].items():
            group, topic, number = key
            if group != group_id or not number.isdecimal():
                continue
            locked, age_s, most = (gauges[name].get(key) for name in (LOCKED, OLDEST_LOCK, DELIVERIES_MAX))
            found[TopicPartition(topic, int(number))] = InFlight(
                int(records),
                None if locked is None else int(locked),
                age_s if locked else None,
                int(most) if most else None,
            )
    return found


_NAMES = (IN_FLIGHT, LOCKED, OLDEST_LOCK, DELIVERIES_MAX)
