"""Groups: list, describe, delete."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ruslo.client.admin.group_descriptions import GroupDescription, from_classic, from_consumer
from ruslo.client.wire.cluster import Cluster
from ruslo.client.wire.coordinators import Coordinators
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.net.channel import check_code, error_of
from ruslo.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from ruslo.protocol.messages.consumer_group_describe_response import ConsumerGroupDescribeResponse
from ruslo.protocol.messages.delete_groups_request import DeleteGroupsRequest
from ruslo.protocol.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse
from ruslo.protocol.messages.describe_groups_request import DescribeGroupsRequest
from ruslo.protocol.messages.describe_groups_response import DescribeGroupsResponse
from ruslo.protocol.messages.list_groups_request import ListGroupsRequest
from ruslo.protocol.messages.list_groups_response import ListGroupsResponse

_STATE_FILTER_VERSION = 4
"""The first version of ListGroups with a state filter (KIP-518)."""
_TYPE_FILTER_VERSION = 5
"""The first version of ListGroups with a type filter (KIP-848)."""
_DEAD = "Dead"


class GroupListing(NamedTuple):
    group_id: str
    type: str
    """``classic``, ``consumer``, ``share`` or ``streams``; empty if the broker is too old to report it."""
    state: str
    """The group state; empty if the broker is too old to report it."""
    protocol_type: str
    coordinator_id: int


class Groups:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.coordinators = Coordinators(cluster)

    async def list(self, *, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[GroupListing]:
        """The groups of all coordinators, filtered by states and types."""
        request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
        min_version = _STATE_FILTER_VERSION if request.states_filter else 0
        if request.types_filter:
            min_version = _TYPE_FILTER_VERSION

        async def list_at(node_id: int) -> list[GroupListing]:
            response = await self._cluster.node(node_id, request, ListGroupsResponse, min_version=min_version)
            check_code(response.error_code, f"broker {node_id} cannot list its groups")
            return [
                GroupListing(
                    group.group_id, group.group_type.lower(), group.group_state, group.protocol_type, node_id
                )
                for group in response.groups
            ]

        # Two brokers list a group whose coordinator moves between the two requests.
        groups = {group.group_id: group for group in await self._cluster.each_broker(list_at)}
        return [groups[group_id] for group_id in sorted(groups)]

    async def describe(
        self, group_ids: Sequence[str], on_described: Callable[[int], None] = lambda count: None
    ) -> dict[str, GroupDescription | KafkaError]:
        """The group, or the error, by group id. ``on_described`` gets the size of each described chunk.

        No request describes groups of every type: this tries ConsumerGroupDescribe (KIP-848) first, then
        DescribeGroups.
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
                    # Before version 6 a group that does not exist has the state Dead.
                    found[group.group_id] = _not_found(group.group_id)
                elif code:
                    found[group.group_id] = error_of(code, group.error_message or _problem(group.group_id))
                else:
                    found[group.group_id] = from_classic(group, node)
            return found

        async def query(node: int, owned: list[str]) -> dict[str, GroupDescription | KafkaError]:
            try:
                found = await as_consumer(node, owned)
            except KafkaError as error:
                if error.code != ErrorCode.UNSUPPORTED_VERSION:
                    raise
                found = {}
            classic = [group_id for group_id in owned if not _is_consumer_group(found.get(group_id))]
            if classic:
                found |= await as_classic(node, classic)
            on_described(sum(isinstance(result, GroupDescription) for result in found.values()))
            return found

        return await self.coordinators.each(list(dict.fromkeys(group_ids)), query)

    async def delete(self, group_ids: Sequence[str]) -> dict[str, KafkaError | None]:
        """Returns None, or the error, by group id."""

        async def query(node: int, owned: list[str]) -> dict[str, KafkaError | None]:
            response = await self._cluster.node(
                node, DeleteGroupsRequest(groups_names=owned), DeleteGroupsResponse
            )
            return {
                result.group_id: _delete_error(result) if result.error_code else None
                for result in response.results
            }

        return await self.coordinators.each(list(dict.fromkeys(group_ids)), query)


def _is_consumer_group(result: GroupDescription | KafkaError | None) -> bool:
    if isinstance(result, KafkaError):
        return result.code not in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)
    return result is not None


def _not_found(group_id: str) -> KafkaError:
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id!r} does not exist")


def _problem(group_id: str) -> str:
    return f"group {group_id!r} cannot be described"


def _delete_error(result: DeletableGroupResult) -> KafkaError:
    group_id, code = result.group_id, result.error_code
    if code == ErrorCode.GROUP_ID_NOT_FOUND:
        return _not_found(group_id)
    if code == ErrorCode.NON_EMPTY_GROUP:
        return error_of(code, f"group {group_id!r} has members")
    return error_of(code, result.error_message or f"group {group_id!r} cannot be deleted")
