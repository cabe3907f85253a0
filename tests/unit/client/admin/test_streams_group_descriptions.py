from __future__ import annotations

from ruslo.client.admin.streams_group_descriptions import StreamsGroupDescription, Task, Tasks, from_streams
from ruslo.model.topics import TopicPartition
from ruslo.protocol.messages import streams_group_describe_response as streams

TOPOLOGY = streams.Topology(
    epoch=2,
    subtopologies=[
        streams.Subtopology(subtopology_id="0", source_topics=["words"], repartition_sink_topics=["by-word"]),
        streams.Subtopology(
            subtopology_id="1",
            state_changelog_topics=[streams.TopicInfo(name="counts-changelog")],
            repartition_source_topics=[streams.TopicInfo(name="by-word")],
        ),
    ],
)


def assignment(**tasks: list[int]) -> streams.Assignment:
    """Tasks of subtopology 1."""
    ids = {name: [streams.TaskIds(subtopology_id="1", partitions=found)] for name, found in tasks.items()}
    return streams.Assignment(
        active_tasks=ids.get("active", []),
        standby_tasks=ids.get("standby", []),
        warmup_tasks=ids.get("warmup", []),
    )


def described(topology: streams.Topology | None = TOPOLOGY) -> StreamsGroupDescription:
    member = streams.Member(
        member_id="m",
        member_epoch=5,
        client_id="app-p1-StreamThread-1-consumer",
        client_host="/10.0.0.1",
        process_id="p1",
        user_endpoint=streams.Endpoint(host="box", port=7070),
        client_tags=[streams.KeyValue(key="zone", value="a")],
        assignment=assignment(active=[1, 0], standby=[2]),
        target_assignment=assignment(active=[0], warmup=[3]),
    )
    return from_streams(
        streams.DescribedGroup(group_id="app", group_state="Stable", topology=topology, members=[member]), 1
    )


def test_subtopologies_have_the_topics_that_they_read_and_write() -> None:
    first, second = described().subtopologies
    assert (first.input_topics, first.repartition_sink_topics) == (("words",), ("by-word",))
    assert (second.input_topics, second.changelog_topics) == (("by-word",), ("counts-changelog",))


def test_members_have_tasks_and_the_partitions_that_these_read() -> None:
    (member,) = described().members
    assert member.tasks == Tasks((Task("1", 0), Task("1", 1)), (Task("1", 2),))
    assert member.target_tasks == Tasks((Task("1", 0),), (), (Task("1", 3),))
    assert member.assignment == (TopicPartition("by-word", 0), TopicPartition("by-word", 1))
    assert member.target == (TopicPartition("by-word", 0),)
    assert (member.host, member.endpoint, member.client_tags) == ("10.0.0.1", "box:7070", {"zone": "a"})
    assert member.thread == "StreamThread-1"
    assert str(member.tasks.active[0]) == "1_0"


def test_a_group_without_a_topology() -> None:
    found = described(None)
    assert (found.topology_epoch, found.subtopologies) == (None, ())
    assert found.members[0].assignment == ()
