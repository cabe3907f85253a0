"""A running group whose members migrate between the classic and the consumer protocol (KIP-848)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import ConsumerGroupType, Producer
from confluent_kafka.admin import AdminClient

from tests.interop.conftest import TopicMaker
from tests.support.groups.group_members import (
    Member,
    Protocol,
    Setting,
    poll_for,
    poll_until,
    share_evenly,
    topic_partitions,
)
from tests.support.tools.java_tools import JavaTools
from tests.support.tools.programs import require_tool

PARTITIONS = 6


class Load:
    """Writes a few records to each partition whenever the members are polled."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.sent = 0
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1})

    def send(self) -> None:
        for partition in range(PARTITIONS):
            self._producer.produce(self._topic, b"%d" % self.sent, partition=partition)
        self.sent += 1
        self._producer.poll(0)

    def flush(self) -> None:
        assert self._producer.flush(30) == 0


class Migration:
    """Members of one group under load, and the checks that hold after every step."""

    def __init__(self, bootstrap: str, group: str, topic: str, admin: AdminClient) -> None:
        self.members: list[Member] = []
        self.all_members: list[Member] = []
        self.load = Load(bootstrap, topic)
        self.all_partitions = topic_partitions(topic, range(PARTITIONS))
        self._admin = admin
        self._group = group
        self._bootstrap = bootstrap
        self._topic = topic

    def join(self, protocol: Protocol, settings: dict[str, Setting] | None = None) -> Member:
        member = Member(self._bootstrap, self._group, [self._topic], protocol, settings)
        self.members.append(member)
        self.all_members.append(member)
        self.wait_until_stable()
        return member

    def leave(self, member: Member) -> None:
        self.members.remove(member)
        member.close()
        self.wait_until_stable()

    def wait_until_stable(self) -> None:
        """Wait until the members own all partitions, and all of them receive records."""
        if not self.members:
            return
        balanced = share_evenly(self.members, self.all_partitions)
        marks: list[int] = []

        def reached() -> bool:
            self.load.send()
            if not balanced():
                marks.clear()
                return False
            if not marks:
                marks.extend(len(member.records) for member in self.members)
            return all(len(m.records) > mark for m, mark in zip(self.members, marks, strict=True))

        poll_until(self.members, reached)

    def group_type(self) -> ConsumerGroupType:
        description = self._admin.describe_consumer_groups([self._group], request_timeout=30)[self._group]
        group_type = description.result().type
        assert isinstance(group_type, ConsumerGroupType)
        return group_type

    def check_records(self) -> None:
        """Every record is delivered once, because members commit before a partition is revoked."""
        self.load.flush()
        expected = PARTITIONS * self.load.sent
        poll_until(self.members, lambda: len({p for m in self.all_members for p in m.read}) == expected)
        poll_for(self.members, 0.2)
        read = [position for member in self.all_members for position in member.read]
        assert len(set(read)) == expected
        assert len(read) == expected
        assert [member.errors for member in self.all_members] == [[]] * len(self.all_members)


@pytest.fixture
def migration(bootstrap: str, new_topic: TopicMaker, group: str, admin: AdminClient) -> Iterator[Migration]:
    migration = Migration(bootstrap, group, new_topic(partitions=PARTITIONS), admin)
    with ExitStack() as stack:
        yield migration
        for member in migration.members:
            stack.callback(member.close)


@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
def test_members_migrate_to_the_consumer_protocol_one_by_one(migration: Migration, strategy: str) -> None:
    classic: dict[str, Setting] = {"partition.assignment.strategy": strategy}
    first, second = migration.join("classic", classic), migration.join("classic", classic)
    assert migration.group_type() == ConsumerGroupType.CLASSIC
    migration.join("consumer")
    assert migration.group_type() == ConsumerGroupType.CONSUMER
    migration.leave(first)
    migration.join("consumer")
    migration.leave(second)
    assert migration.group_type() == ConsumerGroupType.CONSUMER
    migration.check_records()


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_members_migrate_back_to_the_classic_protocol_one_by_one(migration: Migration, strategy: str) -> None:
    classic: dict[str, Setting] = {"partition.assignment.strategy": strategy}
    first, second = migration.join("consumer"), migration.join("consumer")
    migration.join("classic", classic)
    assert migration.group_type() == ConsumerGroupType.CONSUMER
    migration.leave(first)
    migration.join("classic", classic)
    migration.leave(second)  # The last member of the consumer protocol leaves, so the group is classic again.
    assert migration.group_type() == ConsumerGroupType.CLASSIC
    migration.join("classic", classic)
    migration.check_records()


def test_a_group_whose_assignor_has_user_data_stays_classic(
    migration: Migration, bootstrap: str, group: str
) -> None:
    """librdkafka's cooperative-sticky writes user data into the assignments, which the broker cannot keep."""
    for _ in range(2):
        migration.join("classic", {"partition.assignment.strategy": "cooperative-sticky"})
    topic = next(iter(migration.all_partitions))[0]
    with Member(bootstrap, group, [topic], "consumer") as caught:
        poll_until([*migration.members, caught], lambda: bool(caught.errors))
        assert "group id does not exist" in str(caught.errors[0])
    migration.wait_until_stable()
    assert migration.group_type() == ConsumerGroupType.CLASSIC
    migration.check_records()


def test_a_static_member_changes_its_protocol(migration: Migration) -> None:
    """The instance keeps its partitions; no other member rebalances."""
    remaining = migration.join("classic", {"group.instance.id": "stays"})
    before = migration.join("classic", {"group.instance.id": "moves"})
    owned = set(before.assigned)
    migration.members.remove(before)
    before.close()
    after = migration.join("consumer", {"group.instance.id": "moves"})
    assert migration.group_type() == ConsumerGroupType.CONSUMER
    assert after.assigned == owned
    assert len(remaining.assigned) == 3
    migration.check_records()


def test_empty_group_changes_its_type_and_keeps_its_offsets(migration: Migration) -> None:
    for protocol in ("classic", "consumer", "classic"):
        migration.leave(migration.join(protocol))
    migration.join("consumer")
    assert migration.group_type() == ConsumerGroupType.CONSUMER
    migration.check_records()


def test_java_and_librdkafka_members_of_different_protocols(
    migration: Migration, bootstrap: str, group: str
) -> None:
    require_tool("java")
    topic = next(iter(migration.all_partitions))[0]
    other = migration.join("classic")
    with JavaTools() as java:
        arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--group-id", group]
        arguments += ["--group-protocol", "consumer", "--max-messages", "300"]
        consuming = java.begin("org.apache.kafka.tools.VerifiableConsumer", *arguments)
        migration.load.send()
        poll_until([other], lambda: len(other.assigned) == PARTITIONS // 2)
        assert migration.group_type() == ConsumerGroupType.CONSUMER

        def ended() -> bool:
            migration.load.send()
            return consuming.done()

        poll_until([other], ended)
        poll_until([other], lambda: other.assigned == migration.all_partitions)
        assert migration.group_type() == ConsumerGroupType.CLASSIC
        assert '"offsets_committed"' in consuming.result().output
        assert other.errors == []
    migration.load.flush()
