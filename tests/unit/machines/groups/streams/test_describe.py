"""StreamsGroupDescribe, topology descriptions, and the endpoints of a group."""

from __future__ import annotations

from ruslo.machines.groups.streams.describe import DescriptionStatus
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from ruslo.protocol.messages.streams_group_describe_response import (
    DescribedGroup,
    StreamsGroupDescribeResponse,
)
from ruslo.protocol.messages.streams_group_heartbeat_request import Endpoint
from ruslo.protocol.messages.streams_group_topology_description_update_request import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
    TopologyDescriptionGlobalStore,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)
from ruslo.protocol.messages.streams_group_topology_description_update_response import (
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from tests.support.groups.consumer_transcript import Consumer
from tests.support.groups.streams_transcript import (
    READY,
    StreamsTranscript,
    StreamThread,
    counting_topology,
    stateless_topology,
)

NODE = TopologyDescriptionNode(name="KSTREAM-SOURCE-0", node_type=1, source_topics=["orders"])
DESCRIPTION = TopologyDescription(
    subtopologies=[TopologyDescriptionSubtopology(subtopology_id="0", nodes=[NODE])],
    global_stores=[TopologyDescriptionGlobalStore(source=NODE, processor=NODE)],
)


def described(
    transcript: StreamsTranscript, group: str = "g", version: int = 1, *, description: bool = False
) -> DescribedGroup:
    request = StreamsGroupDescribeRequest(group_ids=[group], include_topology_description=description)
    response = transcript.bench.call(request, StreamsGroupDescribeResponse, version)
    (found,) = response.groups
    return found


def push(
    transcript: StreamsTranscript, member_id: str, epoch: int = 0, group: str = "g"
) -> StreamsGroupTopologyDescriptionUpdateResponse:
    request = StreamsGroupTopologyDescriptionUpdateRequest(
        group_id=group, member_id=member_id, topology_epoch=epoch, topology_description=DESCRIPTION
    )
    return transcript.bench.call(request, StreamsGroupTopologyDescriptionUpdateResponse)


def test_members_have_their_tasks_and_their_targets() -> None:
    transcript = StreamsTranscript(topics=READY)
    a, b = StreamThread(transcript, "a"), StreamThread(transcript, "b")
    a.join(user_endpoint=Endpoint(host="h", port=80), rack_id="r1")
    b.join()
    group = described(transcript)
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Reconciling", 3, 3)
    assert group.assignor_name == "sticky"
    first, second = group.members
    assert (first.process_id, first.rack_id, first.topology_epoch) == ("process-a", "r1", 0)
    assert first.user_endpoint is not None
    assert (first.user_endpoint.host, first.user_endpoint.port) == ("h", 80)
    assert [each.partitions for each in first.assignment.active_tasks] == [[0, 1, 2, 3]] * 2
    assert [each.partitions for each in first.target_assignment.active_tasks] == [[0, 1]] * 2
    assert second.assignment.active_tasks == []


def test_the_topology_has_the_numbers_of_partitions_once_it_is_configured() -> None:
    transcript = StreamsTranscript()
    a = StreamThread(transcript, "a")
    a.join()
    group = described(transcript)
    assert group.group_state == "NotReady"
    assert group.topology is not None
    assert group.topology.subtopologies is not None
    assert [each.partitions for each in group.topology.subtopologies[1].state_changelog_topics] == [0]
    transcript.create_missing_topics()
    a.heartbeat()
    group = described(transcript)
    assert group.topology is not None
    assert group.topology.subtopologies is not None
    assert [each.partitions for each in group.topology.subtopologies[1].state_changelog_topics] == [4]


def test_unknown_groups() -> None:
    transcript = StreamsTranscript()
    Consumer(transcript, "c", "orders").join()
    assert described(transcript, "absent").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert described(transcript, "g").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert described(transcript, "").error_code == ErrorCode.INVALID_GROUP_ID


# -- topology descriptions ---------------------------------------------------------------------------------


def test_a_description_is_requested_until_a_member_sends_it() -> None:
    transcript = StreamsTranscript()
    a = StreamThread(transcript, "a", stateless_topology(), version=1)
    assert a.join().topology_description_required
    assert a.heartbeat().topology_description_required
    group = described(transcript, description=True)
    assert group.topology_description_status == DescriptionStatus.NOT_STORED
    assert push(transcript, "a").error_code == ErrorCode.NONE
    assert not a.heartbeat().topology_description_required
    assert described(transcript).topology_description_status == DescriptionStatus.NOT_REQUESTED
    group = described(transcript, description=True)
    assert group.topology_description_status == DescriptionStatus.AVAILABLE
    assert group.topology_description is not None
    (node,) = group.topology_description.subtopologies[0].nodes
    assert (node.name, node.node_type, node.source_topics) == (NODE.name, 1, ["orders"])
    assert len(group.topology_description.global_stores) == 1


def test_only_a_member_with_the_group_s_topology_is_asked() -> None:
    transcript = StreamsTranscript()
    StreamThread(transcript, "a", stateless_topology(epoch=1)).join()
    stale = StreamThread(transcript, "b", stateless_topology(epoch=0), version=1)
    assert not stale.join().topology_description_required


def test_descriptions_of_other_topologies_and_clients_are_rejected() -> None:
    transcript = StreamsTranscript()
    StreamThread(transcript, "a", stateless_topology(epoch=1)).join()
    assert push(transcript, "a", epoch=0).error_code == ErrorCode.INVALID_REQUEST
    assert push(transcript, "b", epoch=1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert push(transcript, "a", epoch=1, group="h").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert push(transcript, "", epoch=1).error_code == ErrorCode.INVALID_REQUEST
    assert push(transcript, "a", epoch=1, group="").error_code == ErrorCode.INVALID_REQUEST


def test_the_description_goes_with_the_last_member() -> None:
    transcript = StreamsTranscript(topics=READY)
    a, b = StreamThread(transcript, "a"), StreamThread(transcript, "b")
    a.join()
    b.join()
    assert push(transcript, "a").error_code == 0
    a.leave()
    assert described(transcript, description=True).topology_description_status == DescriptionStatus.AVAILABLE
    b.leave()
    group = described(transcript, description=True)
    assert group.topology_description_status == DescriptionStatus.NOT_STORED
    assert group.topology_description is None


# -- endpoints ---------------------------------------------------------------------------------------------


def test_members_with_an_endpoint_are_known_to_all() -> None:
    transcript = StreamsTranscript(topics=READY)
    a = StreamThread(transcript, "a")
    a.join(user_endpoint=Endpoint(host="a", port=1))
    b = StreamThread(transcript, "b")
    b.endpoint_epoch = -1
    b.join()
    a.heartbeat()
    a.report_tasks()
    response = b.heartbeat()
    assert response.endpoint_information_epoch == 1
    assert response.partitions_by_user_endpoint is not None
    (entry,) = response.partitions_by_user_endpoint
    assert (entry.user_endpoint.host, entry.user_endpoint.port) == ("a", 1)
    assert {each.topic: each.partitions for each in entry.active_partitions} == {
        "orders": [0, 1],
        "r": [0, 1],
    }
    b.endpoint_epoch = response.endpoint_information_epoch
    assert b.heartbeat().partitions_by_user_endpoint is None


def test_endpoints_without_configured_topics_have_no_partitions() -> None:
    transcript = StreamsTranscript()
    a = StreamThread(transcript, "a", counting_topology())
    a.endpoint_epoch = -1
    response = a.join(user_endpoint=Endpoint(host="a", port=1))
    assert response.partitions_by_user_endpoint is not None
    assert response.partitions_by_user_endpoint[0].active_partitions == []
