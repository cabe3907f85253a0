"""StreamsGroupTopologyDescriptionUpdate v0 (KIP-1331): the topology in the words of the application.

A heartbeat response requests it from a member whose topology is the group's; StreamsGroupDescribe returns
it. It is not logged: after a load the coordinator requests it again.
"""

from __future__ import annotations

from ruslo.machines.groups.group import STREAMS, invalid_request, not_found_error
from ruslo.machines.groups.state import ShardState
from ruslo.machines.groups.streams.group import StreamsGroup
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.messages import streams_group_describe_response as described
from ruslo.protocol.messages import streams_group_topology_description_update_request as pushed
from ruslo.protocol.messages.streams_group_topology_description_update_request import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from ruslo.protocol.messages.streams_group_topology_description_update_response import (
    StreamsGroupTopologyDescriptionUpdateResponse,
)


def handle(
    shard: ShardState, request: StreamsGroupTopologyDescriptionUpdateRequest
) -> StreamsGroupTopologyDescriptionUpdateResponse:
    try:
        _store(shard, request)
    except KafkaError as error:
        return StreamsGroupTopologyDescriptionUpdateResponse(
            error_code=error.code, error_message=error.message
        )
    return StreamsGroupTopologyDescriptionUpdateResponse()


def _store(shard: ShardState, request: StreamsGroupTopologyDescriptionUpdateRequest) -> None:
    for name, value in (("GroupId", request.group_id), ("MemberId", request.member_id)):
        if not value:
            raise invalid_request(f"{name} can't be empty.")
    group = shard.groups.get(request.group_id)
    if not isinstance(group, StreamsGroup):
        raise not_found_error(request.group_id, group, STREAMS)
    group.member(request.member_id)
    epoch = None if group.topology is None else group.topology.epoch
    if request.topology_epoch != epoch:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"The description is of topology epoch {request.topology_epoch}, but the group has {epoch}",
        )
    group.description = request.topology_epoch, _description(request.topology_description)


def _description(pushed_description: pushed.TopologyDescription) -> described.TopologyDescription:
    return described.TopologyDescription(
        subtopologies=[
            described.TopologyDescriptionSubtopology(
                subtopology_id=each.subtopology_id, nodes=[_node(node) for node in each.nodes]
            )
            for each in pushed_description.subtopologies
        ],
        global_stores=[
            described.TopologyDescriptionGlobalStore(
                source=_node(each.source), processor=_node(each.processor)
            )
            for each in pushed_description.global_stores
        ],
    )


def _node(node: pushed.TopologyDescriptionNode) -> described.TopologyDescriptionNode:
    return described.TopologyDescriptionNode(
        name=node.name,
        node_type=node.node_type,
        source_topics=node.source_topics,
        sink_topic=node.sink_topic,
        stores=node.stores,
        successors=node.successors,
    )
