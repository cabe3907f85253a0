"""Members of consumer groups: confluent-kafka consumers, several of which one thread polls."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Literal, NamedTuple, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.support.clients.librdkafka import Settings, new_reader

Protocol = Literal["classic", "consumer"]
PartitionKey = tuple[str, int]
Setting = str | int | bool | Callable[..., None]

# Short intervals, so that a test does not wait for a member's next heartbeat. With the new protocol the
# broker sets the pace: GROUP_NODE_PROPERTIES.
CLASSIC_PACE: Settings = {"heartbeat.interval.ms": 200}
GROUP_NODE_PROPERTIES = {
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.assignment.interval.ms": "0",
    "group.consumer.assignment.interval.ms": "100",
}


class Rebalance(NamedTuple):
    """One call of a rebalance listener."""

    kind: Literal["assigned", "revoked", "lost"]
    partitions: frozenset[PartitionKey]


def topic_partitions(topic: str, partitions: Iterable[int]) -> set[PartitionKey]:
    return {(topic, partition) for partition in partitions}


class Member:
    """A subscribed consumer with its assignment, its rebalances, its records and its errors."""

    def __init__(
        self,
        bootstrap: str,
        group: str,
        topics: Sequence[str],
        protocol: Protocol = "classic",
        settings: Mapping[str, Setting] | None = None,
    ) -> None:
        self.assigned: set[PartitionKey] = set()
        self.rebalances: list[Rebalance] = []
        self.records: list[Message] = []
        self.errors: list[KafkaError] = []
        self._closed = False
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                "log_level": 0,
                "error_cb": self.errors.append,
                **(CLASSIC_PACE if protocol == "classic" else {}),
                **(settings or {}),
            }
        )
        self.consumer.subscribe(
            list(topics), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    @property
    def read(self) -> list[tuple[str, int, int]]:
        """Topic, partition and offset of every received record."""
        return [position_of(record) for record in self.records]

    @property
    def error_codes(self) -> set[int]:
        return {error.code() for error in self.errors}

    def poll(self, timeout_s: float = 0.02) -> None:
        """Receive up to 500 records."""
        for message in self.consumer.consume(500, timeout_s):
            error = message.error()
            if error is None:
                self.records.append(message)
            else:
                self.errors.append(error)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            # librdkafka's close may hang in a rebalance that is not handled.
            self.poll(0)
            self.consumer.close()
            self.assigned.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        new = frozenset((tp.topic, tp.partition) for tp in partitions)
        self.assigned |= new
        self.rebalances.append(Rebalance("assigned", new))

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._remove("revoked", partitions)

    def _on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._remove("lost", partitions)

    def _remove(self, kind: Literal["revoked", "lost"], partitions: list[TopicPartition]) -> None:
        removed = frozenset((tp.topic, tp.partition) for tp in partitions)
        self.assigned -= removed
        self.rebalances.append(Rebalance(kind, removed))


def position_of(record: Message) -> tuple[str, int, int]:
    topic, partition, offset = record.topic(), record.partition(), record.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    return topic, partition, offset


def poll_until(members: Sequence[Member], reached: Callable[[], bool], timeout_s: float = 90) -> None:
    """Poll all members in turn until a condition holds."""
    deadline = time.monotonic() + timeout_s
    while not reached():
        if time.monotonic() > deadline:
            states = "\n".join(f"{m.assigned} {m.rebalances} {m.errors}" for m in members)
            raise AssertionError(f"the condition was not reached within {timeout_s:g} s:\n{states}")
        for member in members:
            member.poll()


def poll_for(members: Sequence[Member], seconds: float) -> None:
    """Poll all members in turn for some time, to verify that nothing happens."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for member in members:
            member.poll()


def short_session(
    admin: AdminClient, group: str, protocol: Protocol, timeout_ms: int
) -> dict[str, str | int | bool]:
    """Client settings for this session timeout; with the new protocol it is a group config of the broker."""
    if protocol == "classic":
        return {"session.timeout.ms": timeout_ms}
    entry = ConfigEntry(
        "consumer.session.timeout.ms", str(timeout_ms), incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(timeout=30)
    return {}


def share_evenly(members: Sequence[Member], partitions: set[PartitionKey]) -> Callable[[], bool]:
    """The condition that the partitions are assigned once each, and member sizes differ by at most one."""

    def reached() -> bool:
        sizes = [len(member.assigned) for member in members]
        union = {tp for member in members for tp in member.assigned}
        return union == partitions and sum(sizes) == len(union) and max(sizes) - min(sizes) <= 1

    return reached


def committed_positions(bootstrap: str, group: str, topic: str, partitions: int = 1) -> list[TopicPartition]:
    """The committed offsets of a group, fetched by a client that is not a member.

    Retries while the coordinator loads. The admin client cannot do that: it fails, and sometimes crashes, on
    the error of a coordinator that is not ready.
    """
    deadline = time.monotonic() + 30
    reader = new_reader(bootstrap, {"group.id": group})
    try:
        while True:
            tps = [TopicPartition(topic, number) for number in range(partitions)]
            try:
                return reader.committed(tps, timeout=30)
            except KafkaException as error:
                not_ready = {KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS}
                if error.args[0].code() not in not_ready or time.monotonic() > deadline:
                    raise
            time.sleep(0.1)
    finally:
        reader.close()


def committed(bootstrap: str, group: str, topic: str, partitions: int = 1) -> list[int]:
    """The committed offsets of a group by partition."""
    return [tp.offset for tp in committed_positions(bootstrap, group, topic, partitions)]
