"""The group machine compared with Apache Kafka: equal requests in equal order get equal responses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from ruslo.machines.groups.settings import GroupSettings
from ruslo.model.ids import Uuid
from ruslo.protocol.message import Message
from ruslo.protocol.messages.delete_groups_request import DeleteGroupsRequest
from ruslo.protocol.messages.delete_groups_response import DeleteGroupsResponse
from ruslo.protocol.messages.describe_groups_request import DescribeGroupsRequest
from ruslo.protocol.messages.describe_groups_response import DescribeGroupsResponse
from ruslo.protocol.messages.heartbeat_request import HeartbeatRequest
from ruslo.protocol.messages.heartbeat_response import HeartbeatResponse
from ruslo.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from ruslo.protocol.messages.leave_group_response import LeaveGroupResponse
from ruslo.protocol.messages.list_groups_request import ListGroupsRequest
from ruslo.protocol.messages.list_groups_response import ListGroupsResponse
from ruslo.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ruslo.protocol.messages.offset_delete_response import OffsetDeleteResponse
from ruslo.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from ruslo.protocol.messages.offset_fetch_response import OffsetFetchResponse
from tests.support.brokers.kafka import ApacheKafka
from tests.support.groups.classic_client import ClassicClient, complete_rebalance
from tests.support.groups.group_bench import Coordinator, GroupBench, Topics
from tests.support.groups.kafka_groups import KafkaGroups
from tests.support.groups.offset_calls import commit, fetch, fetch_all
from tests.support.tools.programs import require_tool

MessageT = TypeVar("MessageT", bound=Message)

TOPICS = {"orders": 4, "parcels": 2}
MEMBER_ID = re.compile(r"[\w.-]*[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
ABSENT_ID = bytes(15) + b"\x09"


class Witness:
    """Forwards requests and records every response without its random fields."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._names: dict[str, str] = {}
        self.notes: list[str] = []

    def send(self, request: Message, version: int | None = None, client: str = "app") -> int:
        return self._coordinator.send(request, version, client)

    def call(
        self, request: Message, response: type[MessageT], version: int | None = None, client: str = "app"
    ) -> MessageT:
        return self.response(self.send(request, version, client), response)

    def response(self, token: int, response: type[MessageT]) -> MessageT:
        message = self._coordinator.response(token, response)
        self.notes.append(self._plain(message))
        return message

    def is_parked(self, token: int) -> bool:
        return self._coordinator.is_parked(token)

    def topic_id(self, name: str) -> Uuid:
        return self._coordinator.topic_id(name)

    def _plain(self, message: object) -> str:
        if isinstance(message, list):
            # The order of these lists is not defined.
            return "[" + ", ".join(sorted(self._plain(each) for each in message)) + "]"
        fields = getattr(message, "__slots__", None)
        if fields is None:
            text = repr(message)
            for name in TOPICS:
                text = text.replace(repr(self.topic_id(name)), f"id of {name}")
            return MEMBER_ID.sub(self._name, text)
        shown = (name for name in fields if name not in ("error_message", "client_host"))
        fields = (f"{name}={self._plain(getattr(message, name))}" for name in shown)
        return f"{type(message).__name__}({', '.join(fields)})"

    def _name(self, match: re.Match[str]) -> str:
        # Names are numbered in the order of their appearance.
        return self._names.setdefault(match[0], f"member {len(self._names)}")


def group_client(
    bench: Coordinator,
    name: str,
    group: str,
    *,
    instance: str | None = None,
    join_version: int = 9,
    protocols: dict[str, bytes] | None = None,
) -> ClassicClient:
    return ClassicClient(
        bench,
        name,
        group=group,
        instance=instance,
        join_version=join_version,
        protocols=protocols,
        session_ms=30_000,
        rebalance_ms=20_000,
    )


def describe(bench: Coordinator, *groups: str, version: int = 6) -> None:
    bench.call(DescribeGroupsRequest(groups=list(groups)), DescribeGroupsResponse, version)


def delete_offsets(bench: Coordinator, group: str, **topics: list[int]) -> None:
    request = OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequestTopic(
                name=name, partitions=[OffsetDeleteRequestPartition(partition_index=p) for p in partitions]
            )
            for name, partitions in topics.items()
        ],
    )
    bench.call(request, OffsetDeleteResponse)


# -- scenarios ---------------------------------------------------------------------------------------------


def offsets_of_an_unknown_group(bench: Coordinator) -> None:
    for version in range(2, 11):
        commit(bench, version, group=f"s{version}", metadata="note", version=version)
    commit(bench, 1, group="s9", partition=9)
    commit(bench, 1, group="s9", partition=-1)
    commit(bench, 1, group="s9", topic="absent")
    commit(bench, -5, group="s9", partition=3)
    commit(bench, 1, group="s9", metadata="x" * 4_097)
    commit(bench, 1, group="s9", metadata="ф" * 4_096)
    commit(bench, 1, group="s9", metadata=None)
    commit(bench, 1, group="s9", member="m")
    commit(bench, 1, group="")
    for version in (8, 9, 10):
        commit(bench, 1, group="absent", generation=3, member="m", version=version)
    commit(bench, 1, group="absent", generation=3, metadata="x" * 4_097)
    fetch_all(bench, group="s9")
    fetch_all(bench, group="")
    fetch_all(bench, group="absent")


def offsets_in_every_version(bench: Coordinator) -> None:
    for partition in range(3):
        commit(bench, 10 + partition, group="f", partition=partition, metadata=f"p{partition}")
    commit(bench, 20, group="f", topic="parcels")
    old = [
        OffsetFetchRequestTopic(name="orders", partition_indexes=[0, 3, 9]),
        OffsetFetchRequestTopic(name="absent", partition_indexes=[0]),
    ]
    for version in range(1, 8):
        bench.call(OffsetFetchRequest(group_id="f", topics=old), OffsetFetchResponse, version)
    for version in range(2, 8):
        bench.call(OffsetFetchRequest(group_id="f", topics=None), OffsetFetchResponse, version)
    topics = [OffsetFetchRequestTopics(name="orders", partition_indexes=[0, 3])]
    for version in (8, 9):
        groups = [
            OffsetFetchRequestGroup(group_id="f", topics=topics),
            OffsetFetchRequestGroup(group_id="absent", topics=topics),
            OffsetFetchRequestGroup(group_id="f", topics=None),
        ]
        bench.call(OffsetFetchRequest(groups=groups[:2]), OffsetFetchResponse, version)
        bench.call(OffsetFetchRequest(groups=groups[2:]), OffsetFetchResponse, version)
    by_id = [
        OffsetFetchRequestTopics(topic_id=bench.topic_id("orders"), partition_indexes=[0, 3]),
        OffsetFetchRequestTopics(topic_id=ABSENT_ID, partition_indexes=[0]),
    ]
    for expected in (by_id, None):
        group = OffsetFetchRequestGroup(group_id="f", topics=expected)
        bench.call(OffsetFetchRequest(groups=[group]), OffsetFetchResponse, 10)


def tools(bench: Coordinator) -> None:
    for name in ("t0", "t1", "t2"):
        commit(bench, 1, group=name)
        commit(bench, 1, group=name, partition=1)
    delete_offsets(bench, "absent", orders=[0])
    delete_offsets(bench, "", orders=[0])
    delete_offsets(bench, "t0", orders=[0, 3, 9], absent=[0])
    fetch_all(bench, group="t0")
    for version in range(7):
        describe(bench, "t0", "absent", version=version)
    # The filters match nothing, because other scenarios leave groups behind.
    for states, types in ((["nonsense"], []), ([], ["nonsense"]), (["dead"], ["CLASSIC"])):
        request = ListGroupsRequest(states_filter=states, types_filter=types)
        bench.call(request, ListGroupsResponse)
    for version in range(3):
        names = [f"t{version}", "absent"]
        bench.call(DeleteGroupsRequest(groups_names=names), DeleteGroupsResponse, version)


def single_members(bench: Coordinator) -> None:
    for version in range(10):
        client = group_client(bench, "app", f"l{version}", join_version=version)
        client.join()
        client.sync({client.member_id: b"all"}, version=min(version, 5))
        client.heartbeat()
        describe(bench, client.group)
        for _ in range(2):
            if version < 3:
                request = LeaveGroupRequest(group_id=client.group, member_id=client.member_id)
                bench.call(request, LeaveGroupResponse, version)
            else:
                client.leave()
        client.heartbeat()
        client.sync()
        describe(bench, client.group)


def errors(bench: Coordinator) -> None:
    for version in (4, 6, 7, 9):
        short_timeout = group_client(bench, "app", "r", join_version=version)
        short_timeout.session_ms = 5_999
        short_timeout.join()
        group_client(bench, "app", "", join_version=version).join()
        unknown = group_client(bench, "app", "r", join_version=version)
        unknown.member_id = "stranger"
        unknown.join()
        group_client(bench, "app", f"r{version}", join_version=version, protocols={}).join()
        untyped = group_client(bench, "app", f"u{version}", join_version=version)
        untyped.protocol_type = ""
        untyped.join()
    for group in ("", "absent"):
        lost = group_client(bench, "app", group)
        lost.member_id, lost.generation = "m", 1
        lost.sync()
        lost.protocol = "range"
        lost.sync()
        lost.heartbeat()
        members = [MemberIdentity(member_id="m"), MemberIdentity(member_id="", group_instance_id="i")]
        bench.call(LeaveGroupRequest(group_id=group, members=members), LeaveGroupResponse)
        bench.call(LeaveGroupRequest(group_id=group, member_id="m"), LeaveGroupResponse, 2)


def concurrent_members(a: ClassicClient, b: ClassicClient) -> None:
    """``a`` is stable, ``b`` joins, and both send requests in every state of the rebalance."""
    bench = a.bench
    a.join()
    complete_rebalance(a)
    b.join()
    a.heartbeat()
    a.commit(5)
    a.sync()
    describe(bench, a.group)
    a.join()
    b.joined()
    b.sync()
    a.commit(6)
    a.heartbeat()
    describe(bench, a.group)
    a.sync({a.member_id: b"A", b.member_id: b"B"})
    b.synced()
    describe(bench, a.group)


def dynamic_pair(bench: Coordinator) -> None:
    a, b = group_client(bench, "a", "d"), group_client(bench, "b", "d")
    concurrent_members(a, b)
    for member, generation, instance in (
        ("", -1, None),
        ("", 2, None),
        ("stranger", 2, None),
        (a.member_id, 99, None),
        (a.member_id, -1, None),
        (a.member_id, 2, "i"),
        (a.member_id, 2, None),
    ):
        commit(bench, 7, group="d", member=member, generation=generation, instance=instance)
    b.join()
    other = group_client(bench, "c", "d")
    other.protocol_type = "connect"
    other.join()
    group_client(bench, "c", "d", protocols={"unheard-of": b""}).join()
    delete_offsets(bench, "d", orders=[0], parcels=[0])
    # Kafka 4.3 has no newer version.
    bench.call(DeleteGroupsRequest(groups_names=["d"]), DeleteGroupsResponse, version=2)
    a.protocol = "sticky"
    a.sync()
    a.generation += 1
    a.sync()
    a.heartbeat()
    members = [
        MemberIdentity(member_id=a.member_id),
        MemberIdentity(member_id="stranger"),
        MemberIdentity(member_id=b.member_id, group_instance_id="i"),
    ]
    bench.call(LeaveGroupRequest(group_id="d", members=members), LeaveGroupResponse)
    fetch(bench, group="d")


def static_pair(bench: Coordinator) -> None:
    for version in (5, 8, 9):
        group = f"st{version}"

        def member(name: str, group: str = group, version: int = version) -> ClassicClient:
            return group_client(bench, name, group, instance=f"i-{name}", join_version=version)

        a, b = member("a"), member("b")
        concurrent_members(a, b)
        for old in (b, a):
            again = member(old.name)
            again.join()
            again.sync()
            old.heartbeat()
            old.join()
            old.commit(9)
            old.leave()
            old.sync()
        describe(bench, group)
        deleted = [MemberIdentity(member_id="", group_instance_id=f"i-{name}") for name in "abc"]
        bench.call(LeaveGroupRequest(group_id=group, members=deleted), LeaveGroupResponse)
        describe(bench, group)


def other_types_and_garbled_bytes(bench: Coordinator) -> None:
    garbled = group_client(bench, "app", "garbled", protocols={"range": b"?"})
    garbled.join()
    complete_rebalance(garbled)
    delete_offsets(bench, "garbled", parcels=[0])
    worker = group_client(bench, "app", "workers", protocols={"v1": b"?"})
    worker.protocol_type = "connect"
    worker.join()
    complete_rebalance(worker)
    delete_offsets(bench, "workers", parcels=[0])
    worker.join()
    worker.join()
    worker.protocols = {"v1": b"changed"}
    worker.join()
    request = HeartbeatRequest(group_id="workers", generation_id=1, member_id=worker.member_id)
    bench.call(request, HeartbeatResponse, 0)


SCENARIOS: list[Callable[[Coordinator], None]] = [
    offsets_of_an_unknown_group,
    offsets_in_every_version,
    tools,
    single_members,
    errors,
    dynamic_pair,
    static_pair,
    other_types_and_garbled_bytes,
]


class NoDelayBench(GroupBench):
    """A bench with the broker's configuration: an empty group does not wait for more members."""

    def __init__(self) -> None:
        super().__init__(GroupSettings(initial_rebalance_delay_ms=0), Topics(TOPICS))

    def send(self, request: Message, version: int | None = None, client: str = "app") -> int:
        token = super().send(request, version, client)
        self.advance(1)
        return token


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaGroups]:
    require_tool("java")
    with ApacheKafka(tmp_path_factory.mktemp("kafka")) as node:
        yield KafkaGroups(node, TOPICS)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_same_responses(kafka: KafkaGroups, scenario: Callable[[Coordinator], None]) -> None:
    theirs, ours = Witness(kafka), Witness(NoDelayBench())
    scenario(theirs)
    scenario(ours)
    assert ours.notes == theirs.notes
    assert len(ours.notes) >= 10
