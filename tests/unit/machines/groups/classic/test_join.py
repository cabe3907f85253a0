"""JoinGroup: which members are accepted, under which id, and when the response is sent."""

from __future__ import annotations

import pytest

from ruslo.machines.groups.settings import GroupSettings
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.group_metadata_key import GroupMetadataKey
from ruslo.protocol.messages.group_metadata_value import GroupMetadataValue
from ruslo.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from ruslo.protocol.messages.join_group_response import JoinGroupResponse
from tests.support.groups.classic_client import ClassicClient, complete_rebalance, stable_group, subscription
from tests.support.groups.group_bench import GroupBench
from tests.support.machines.coordinator_bench import WALL_MS


def rejected(client: ClassicClient) -> ErrorCode:
    response = client.join_once()
    assert response is not None
    return ErrorCode(response.error_code)


def test_first_join_gets_an_id_then_waits_out_the_initial_delay() -> None:
    bench = GroupBench()
    client = ClassicClient(bench, "app")

    response = client.join_once()
    assert response is not None
    assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert response.member_id == "app-00000000-0000-0000-0000-000000000001"
    assert (response.generation_id, response.leader, response.members) == (-1, "", [])
    created = bench.records()
    assert [record.key for record in created] == [GroupMetadataKey(group="g")]
    assert created[0].value == GroupMetadataValue(
        protocol_type="", generation=0, protocol=None, leader=None, current_state_timestamp=WALL_MS
    )
    assert created[0].version == 3

    client.member_id = response.member_id
    assert client.join_once() is None
    bench.advance(2_999)
    assert client.waits
    bench.advance(1)
    response = client.joined()
    assert response.error_code == ErrorCode.NONE
    assert response.generation_id == 1
    assert response.leader == response.member_id == "app-00000000-0000-0000-0000-000000000001"
    assert response.protocol_type == "consumer"
    assert response.protocol_name == "range"
    assert [(each.member_id, each.metadata) for each in response.members] == [
        (client.member_id, subscription(["orders"]))
    ]
    assert len(bench.log) == 1, "a generation is written once its leader has assigned"


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_old_versions_join_without_member_id_required(version: int) -> None:
    bench = GroupBench()
    client = ClassicClient(bench, "old", join_version=version)
    assert client.join_once() is None
    bench.advance(3_000)
    assert client.joined().member_id.startswith("old-")


def test_version_0_rebalances_within_the_session_timeout() -> None:
    bench = GroupBench()
    old = ClassicClient(bench, "old", join_version=0, session_ms=7_000, rebalance_ms=60_000)
    stable_group(bench, old)
    new = ClassicClient(bench, "new", session_ms=7_000, rebalance_ms=1_000)
    new.join()
    bench.advance(6_999)
    assert old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert new.waits
    bench.advance(1)
    assert [each.member_id for each in new.joined().members] == [new.member_id]


@pytest.mark.parametrize(
    ("session_ms", "code"),
    [
        (5_999, ErrorCode.INVALID_SESSION_TIMEOUT),
        (1_800_001, ErrorCode.INVALID_SESSION_TIMEOUT),
        (6_000, ErrorCode.MEMBER_ID_REQUIRED),
        (1_800_000, ErrorCode.MEMBER_ID_REQUIRED),
    ],
)
def test_session_timeout_must_lie_within_the_broker_limits(session_ms: int, code: ErrorCode) -> None:
    assert rejected(ClassicClient(GroupBench(), "app", session_ms=session_ms)) is code


def test_invalid_requests() -> None:
    bench = GroupBench()
    assert rejected(ClassicClient(bench, "app", group="")) is ErrorCode.INVALID_GROUP_ID
    unknown = ClassicClient(bench, "app")
    unknown.member_id = "never-given-out"
    assert rejected(unknown) is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.log == []


def test_group_is_recorded_even_if_its_first_member_is_rejected() -> None:
    bench = GroupBench()
    assert rejected(ClassicClient(bench, "app", protocols={})) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert rejected(ClassicClient(bench, "app", protocol_type="")) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert [record.key for record in bench.records()] == [GroupMetadataKey(group="g")]


@pytest.mark.parametrize("version", [4, 6, 7, 9])
def test_join_errors_can_be_encoded_in_every_version(version: int) -> None:
    bench = GroupBench()
    client = ClassicClient(bench, "app", group="", join_version=version)
    response = client.join_once()
    assert response is not None
    assert response.protocol_name == (None if version >= 7 else "")


def test_members_must_agree_on_type_and_on_a_protocol() -> None:
    bench = GroupBench()
    stable_group(bench, ClassicClient(bench, "a", protocols={"range": b"1", "sticky": b"2"}))

    other_type = ClassicClient(bench, "c", protocol_type="connect", protocols={"range": b""})
    assert rejected(other_type) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    nothing_common = ClassicClient(bench, "d", protocols={"mine": b""})
    assert rejected(nothing_common) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    common = ClassicClient(bench, "e", protocols={"mine": b"", "sticky": b""})
    assert rejected(common) is ErrorCode.MEMBER_ID_REQUIRED


def test_member_may_not_drop_the_only_common_protocol() -> None:
    bench = GroupBench()
    a, b = ClassicClient(bench, "a"), ClassicClient(bench, "b")
    stable_group(bench, a, b)
    b.protocols = {"sticky": b""}
    assert rejected(b) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_protocol_is_chosen_by_vote_among_the_common_ones() -> None:
    bench = GroupBench()
    a = ClassicClient(bench, "a", protocols={"x": b"", "range": b"", "sticky": b""})
    b = ClassicClient(bench, "b", protocols={"sticky": b"", "range": b""})
    c = ClassicClient(bench, "c", protocols={"y": b"", "sticky": b"", "range": b""})
    for client in (a, b, c):
        client.join()
    bench.advance(6_000)
    assert {client.joined().protocol_name for client in (a, b, c)} == {"sticky"}


def test_protocol_listed_twice_counts_once() -> None:
    bench = GroupBench()
    a = ClassicClient(bench, "a", protocols={"range": b"", "sticky": b""})
    stable_group(bench, a)
    twice = [JoinGroupRequestProtocol(name="mine", metadata=b"") for _ in range(2)]
    common = JoinGroupRequestProtocol(name="range", metadata=b"")
    request = JoinGroupRequest(
        group_id="g", session_timeout_ms=6_000, protocol_type="consumer", protocols=[*twice, common]
    )
    parked = bench.send(request, 3)
    a.join()
    assert a.last_join.protocol_name == "range", "each member has one vote"
    assert bench.response(parked, JoinGroupResponse).error_code == ErrorCode.NONE


def test_initial_delay_is_extended_while_members_join() -> None:
    bench = GroupBench()
    a, b = ClassicClient(bench, "a"), ClassicClient(bench, "b")
    a.join()
    bench.advance(2_000)
    b.join()
    bench.advance(3_999)
    assert a.waits
    assert b.waits
    bench.advance(1)
    assert len(a.joined().members) == 2
    assert b.joined().generation_id == 1


def test_initial_delay_ends_at_the_rebalance_timeout() -> None:
    bench = GroupBench()
    clients = [ClassicClient(bench, f"c{number}", rebalance_ms=7_000) for number in range(8)]
    for client in clients[:7]:
        client.join()
        bench.advance(1_000)
    assert all(not client.waits for client in clients[:7]), "the rebalance timeout is seven seconds"
    assert clients[0].joined().generation_id == 1


def test_pending_id_delays_the_rebalance_until_it_joins_or_expires() -> None:
    bench = GroupBench()
    a = ClassicClient(bench, "a")
    stable_group(bench, a)
    b, c = ClassicClient(bench, "b"), ClassicClient(bench, "c", session_ms=8_000)
    c.join_once()  # This client gets an id and does not join again.
    b.join()
    assert a.join() is None
    bench.advance(7_999)
    assert a.waits
    bench.advance(1)
    assert a.joined().generation_id == 2
    assert b.joined().generation_id == 2


def test_expired_pending_id_is_unknown() -> None:
    bench = GroupBench()
    client = ClassicClient(bench, "a", session_ms=6_000)
    response = client.join_once()
    assert response is not None
    bench.advance(6_000)
    client.member_id = response.member_id
    assert rejected(client) is ErrorCode.UNKNOWN_MEMBER_ID


def test_pending_dynamic_id_cannot_replace_a_static_member() -> None:
    bench = GroupBench()
    a, b = ClassicClient(bench, "a", instance="i"), ClassicClient(bench, "b")
    stable_group(bench, a)
    assert rejected(b) is ErrorCode.MEMBER_ID_REQUIRED
    b.member_id, b.instance = b.last_join.member_id, "i"
    assert rejected(b) is ErrorCode.FENCED_INSTANCE_ID
    b.instance = "j"
    assert rejected(b) is ErrorCode.UNKNOWN_MEMBER_ID
    assert a.heartbeat() is ErrorCode.NONE
    assert a.leave() is ErrorCode.NONE


def test_group_max_size_counts_members_and_parked_joins() -> None:
    bench = GroupBench(GroupSettings(max_size=2))
    a, b, c = (ClassicClient(bench, name) for name in "abc")
    stable_group(bench, a, b)
    full = c.join_once()
    assert full is not None
    assert full.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert full.member_id == ""
    assert a.heartbeat() is ErrorCode.NONE, "the current members are not affected"

    assert a.join() is None, "the leader rejoins, so the group rebalances"
    assert c.join() is None, "only one join is parked, so one more member fits"
    assert rejected(b) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert len(a.joined().members) == 2
    assert c.joined().error_code == ErrorCode.NONE


def test_rejoin_of_an_unchanged_follower_completes_at_once() -> None:
    bench = GroupBench()
    a, b = ClassicClient(bench, "a"), ClassicClient(bench, "b")
    stable_group(bench, a, b)
    response = b.join()
    assert response is not None
    assert response.generation_id == 1
    assert response.leader == a.member_id
    assert response.members == []
    assert a.heartbeat() is ErrorCode.NONE


def test_rejoin_of_a_follower_with_another_subscription_rebalances() -> None:
    bench = GroupBench()
    a, b = ClassicClient(bench, "a"), ClassicClient(bench, "b")
    stable_group(bench, a, b)
    b.protocols = {"range": subscription(["orders", "parcels"])}
    assert b.join() is None
    assert a.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert a.join() is not None
    assert b.joined().generation_id == 2


def test_rejoin_of_the_leader_always_rebalances() -> None:
    bench = GroupBench()
    a, b = ClassicClient(bench, "a"), ClassicClient(bench, "b")
    stable_group(bench, a, b)
    assert a.join() is None
    assert b.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS


def test_rejoin_while_the_leader_assigns_repeats_the_response() -> None:
    bench = GroupBench()
    a, b = ClassicClient(bench, "a"), ClassicClient(bench, "b")
    a.join()
    b.join()
    bench.advance(6_000)
    first, _ = a.joined(), b.joined()
    again = a.join()
    assert again == first
    b.protocols = {"range": b"other"}
    assert b.join() is None, "another subscription starts a rebalance"
    assert a.sync({}) is ErrorCode.REBALANCE_IN_PROGRESS


def test_repeated_join_fails_the_earlier_request() -> None:
    bench = GroupBench()
    a = ClassicClient(bench, "a")
    a.join()
    abandoned = a.token
    assert a.join_once() is None
    assert not bench.is_parked(abandoned)
    bench.advance(3_000)
    assert a.joined().error_code == ErrorCode.NONE


def test_new_member_waits_at_most_five_minutes() -> None:
    bench = GroupBench()
    a = ClassicClient(bench, "a", session_ms=1_000_000, rebalance_ms=1_000_000)
    stable_group(bench, a)
    b = ClassicClient(bench, "b")
    b.join()
    bench.advance(299_999)
    assert b.waits
    bench.advance(1)
    assert b.joined().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert a.join() is not None, "no other member is missing"


def test_generations_continue_after_all_members_left() -> None:
    bench = GroupBench()
    a = ClassicClient(bench, "a")
    stable_group(bench, a)
    a.leave()
    again = ClassicClient(bench, "again", protocol_type="connect", protocols={"v1": b""})
    again.join()
    bench.advance(3_000)
    assert again.joined().generation_id == 3
    complete_rebalance(again)
