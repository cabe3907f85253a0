"""Groups: list, describe, delete, remove members."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ruslo.client.admin.group_descriptions import GroupDescription, from_classic, from_consumer
from ruslo.client.wire.cluster import Cluster
from ruslo.client.wire.coordinators import Coordinators, value_of
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.net.channel import check_code, error_of
from ruslo.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from ruslo.protocol.messages.consumer_group_describe_response import ConsumerGroupDescribeResponse
from ruslo.protocol.messages.delete_groups_request import DeleteGroupsRequest
from ruslo.protocol.messages.delete_groups_response import DeleteGroupsResponse
from ruslo.protocol.messages.describe_groups_request import DescribeGroupsRequest
from ruslo.protocol.messages.describe_groups_response import DescribeGroupsResponse
from ruslo.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from ruslo.protocol.messages.leave_group_response import LeaveGroupResponse
from ruslo.protocol.messages.list_groups_request import ListGroupsRequest
from ruslo.protocol.messages.list_groups_response import ListGroupsResponse

_FILTER_BY_STATE = 4
_FILTER_BY_TYPE = 5
_LEAVE_OF_MANY = 3
"""Versions of ListGroups (KIP-518, KIP-848) and LeaveGroup (KIP-345)."""
_DEAD = "Dead"


class GroupListing(NamedTuple):
    group_id: str
    type: str
    """``classic``, ``consumer``, ``share`` or ``streams``; empty when the broker is too old to tell."""
    state: str
    """As above."""
    protocol_type: str
    coordinator_id: int


class Leaver(NamedTuple):
    """A member by its id; a static one by its instance id, whoever holds that at the moment."""

    member_id: str = ""
    instance_id: str | None = None


class Groups:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.coordinators = Coordinators(cluster)

    async def list(self, *, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[GroupListing]:
        """The groups of all brokers, or those in one of the states and of one of the types."""
        request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
        needed = _FILTER_BY_TYPE if request.types_filter else _FILTER_BY_STATE if request.states_filter else 0

        async def of_node(node_id: int) -> list[GroupListing]:
            response = await self._cluster.node(node_id, request, ListGroupsResponse, min_version=needed)
            check_code(response.error_code, f"broker {node_id} cannot list its groups")
            return [
                GroupListing(
                    group.group_id, group.group_type.lower(), group.group_state, group.protocol_type, node_id
                )
                for group in response.groups
            ]

        async def attempt() -> dict[str, GroupListing]:
            nodes = (await self._cluster.metadata([])).nodes
            found = await asyncio.gather(*(of_node(node_id) for node_id in nodes))
            # A group whose coordinator moves while we ask may be listed by two brokers.
            return {group.group_id: group for listed in found for group in listed}

        groups = await self._cluster.retrying(attempt)
        return [groups[group_id] for group_id in sorted(groups)]

    async def describe(
        self, group_ids: Sequence[str], on_answers: Callable[[int], None] = lambda count: None
    ) -> dict[str, GroupDescription | KafkaError]:
        """By id the group, or why it cannot be described. ``on_answers`` hears how many more are known.

        No request takes groups of every kind: each is asked for as a consumer group (KIP-848) first, then
        as a classic one.
        """

        async def as_consumer(node: int, owned: list[str]) -> dict[str, GroupDescription | KafkaError]:
            response = await self._cluster.node(
                node, ConsumerGroupDescribeRequest(group_ids=owned), ConsumerGroupDescribeResponse
            )
            return {
                group.group_id: error_of(group.error_code, group.error_message or _problem(group.group_id))
                if group.error_code
                else from_consumer(group, node)
                for group in response.groups
            }

        async def as_classic(node: int, owned: list[str]) -> dict[str, GroupDescription | KafkaError]:
            response = await self._cluster.node(
                node, DescribeGroupsRequest(groups=owned), DescribeGroupsResponse
            )
            found: dict[str, GroupDescription | KafkaError] = {}
            for group in response.groups:
                code = group.error_code
                if code in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND) and group.group_state in (
                    "",
                    _DEAD,
                ):
                    # Before version 6 a group that does not exist was described as a dead one.
                    found[group.group_id] = _absent(group.group_id)
                elif code:
                    found[group.group_id] = error_of(code, group.error_message or _problem(group.group_id))
                else:
                    found[group.group_id] = from_classic(group, node)
            return found

        async def ask(node: int, owned: list[str]) -> dict[str, GroupDescription | KafkaError]:
            try:
                found = await as_consumer(node, owned)
            except KafkaError as error:
                if error.code != ErrorCode.UNSUPPORTED_VERSION:
                    raise
                found = {}
            others = [group_id for group_id in owned if _is_no_consumer_group(found.get(group_id))]
            if others:
                found |= await as_classic(node, others)
            on_answers(sum(isinstance(answer, GroupDescription) for answer in found.values()))
            return found

        return await self.coordinators.each(list(dict.fromkeys(group_ids)), ask)

    async def delete(self, group_ids: Sequence[str]) -> dict[str, KafkaError | None]:
        """By id None, or why it was not deleted."""

        async def ask(node: int, owned: list[str]) -> dict[str, KafkaError | None]:
            response = await self._cluster.node(
                node, DeleteGroupsRequest(groups_names=owned), DeleteGroupsResponse
            )
            return {
                result.group_id: _delete_error(result.group_id, result.error_code)
                if result.error_code
                else None
                for result in response.results
            }

        return await self.coordinators.each(list(dict.fromkeys(group_ids)), ask)

    async def remove_members(
        self, group_id: str, leavers: Sequence[Leaver], *, reason: str = "removed by an administrator"
    ) -> dict[Leaver, KafkaError | None]:
        """By member None, or why it is still there. Members that live will soon join again."""
        request = LeaveGroupRequest(
            group_id=group_id,
            members=[
                MemberIdentity(
                    member_id=leaver.member_id, group_instance_id=leaver.instance_id, reason=reason
                )
                for leaver in leavers
            ],
        )

        async def ask(node: int, owned: list[str]) -> dict[str, dict[Leaver, KafkaError | None] | KafkaError]:
            response = await self._cluster.node(node, request, LeaveGroupResponse, min_version=_LEAVE_OF_MANY)
            if response.error_code:
                return {group_id: error_of(response.error_code, f"group {group_id!r}")}
            codes = {
                (member.member_id, member.group_instance_id): member.error_code for member in response.members
            }
            by_instance = {member.group_instance_id: member.error_code for member in response.members}
            results: dict[Leaver, KafkaError | None] = {}
            for leaver in leavers:
                # A broker may fill in the member id of one that was named by its instance id only.
                code = codes.get(leaver, by_instance.get(leaver.instance_id, ErrorCode.UNKNOWN_MEMBER_ID))
                who = leaver.member_id or f"instance {leaver.instance_id}"
                results[leaver] = error_of(code, f"{who} in group {group_id!r}") if code else None
            return {group_id: results}

        return value_of((await self.coordinators.each([group_id], ask))[group_id])


def _is_no_consumer_group(answer: GroupDescription | KafkaError | None) -> bool:
    return answer is None or (
        isinstance(answer, KafkaError)
        and answer.code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)
    )


def _absent(group_id: str) -> KafkaError:
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id!r} does not exist")


def _problem(group_id: str) -> str:
    return f"group {group_id!r} cannot be described"


def _delete_error(group_id: str, code: int) -> KafkaError:
    if code == ErrorCode.GROUP_ID_NOT_FOUND:
        return _absent(group_id)
    if code == ErrorCode.NON_EMPTY_GROUP:
        return error_of(code, f"group {group_id!r} has members")
    return error_of(code, f"group {group_id!r} cannot be deleted")
