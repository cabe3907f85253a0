"""OffsetFetch: all versions and forms of the request."""

from __future__ import annotations

import pytest

from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from ruslo.protocol.messages.offset_fetch_response import OffsetFetchResponse, OffsetFetchResponsePartition
from tests.support.groups.classic_client import ClassicClient, stable_group
from tests.support.groups.group_bench import GroupBench, Topics, topic_id
from tests.support.groups.offset_calls import commit, commit_in_transaction, fetch, fetch_all


@pytest.mark.parametrize("version", range(1, 8))
def test_single_group_of_old_versions(version: int) -> None:
    bench = GroupBench()
    commit(bench, 5, metadata="note")
    topics = [OffsetFetchRequestTopic(name="orders", partition_indexes=[0, 3])]
    response = bench.call(OffsetFetchRequest(group_id="g", topics=topics), OffsetFetchResponse, version)
    assert response.error_code == ErrorCode.NONE
    (topic,) = response.topics
    assert topic.partitions == [
        OffsetFetchResponsePartition(partition_index=0, committed_offset=5, metadata="note"),
        OffsetFetchResponsePartition(partition_index=3, committed_offset=-1, metadata=""),
    ]


def test_null_topics_return_all() -> None:
    bench = GroupBench()
    commit(bench, 1)
    commit(bench, 2, partition=3)
    commit(bench, 3, topic="parcels")
    response = bench.call(OffsetFetchRequest(group_id="g", topics=None), OffsetFetchResponse, 7)
    found = {topic.name: [p.committed_offset for p in topic.partitions] for topic in response.topics}
    assert found == {"orders": [1, 2], "parcels": [3]}
    assert fetch_all(bench) == {("orders", 0): 1, ("orders", 3): 2, ("parcels", 0): 3}


def test_unknown_group_and_topic_have_no_error() -> None:
    bench = GroupBench()
    assert fetch(bench) == -1
    assert fetch(bench, topic="absent") == -1
    assert fetch_all(bench) == {}


def test_several_groups_at_once() -> None:
    bench = GroupBench()
    commit(bench, 1, group="x")
    commit(bench, 2, group="y")
    topics = [OffsetFetchRequestTopics(name="orders", partition_indexes=[0])]
    groups = [OffsetFetchRequestGroup(group_id=name, topics=topics) for name in ("x", "y", "z")]
    response = bench.call(OffsetFetchRequest(groups=groups), OffsetFetchResponse, 8)
    assert [
        (group.group_id, group.topics[0].partitions[0].committed_offset) for group in response.groups
    ] == [("x", 1), ("y", 2), ("z", -1)]


def test_classic_groups_ignore_member_epochs() -> None:
    bench = GroupBench()
    a = ClassicClient(bench, "a")
    stable_group(bench, a)
    a.commit(5)
    group = OffsetFetchRequestGroup(group_id="g", member_id="unknown", member_epoch=99, topics=None)
    response = bench.call(OffsetFetchRequest(groups=[group]), OffsetFetchResponse, 9)
    assert response.groups[0].error_code == ErrorCode.NONE
    assert response.groups[0].topics[0].partitions[0].committed_offset == 5


def test_topics_by_id() -> None:
    bench = GroupBench()
    commit(bench, 5, version=10)
    commit(bench, 6, topic="parcels")
    topics = [
        OffsetFetchRequestTopics(topic_id=bench.topics.id_of("orders"), partition_indexes=[0]),
        OffsetFetchRequestTopics(topic_id=topic_id(5), partition_indexes=[0]),
        OffsetFetchRequestTopics(topic_id=bench.topics.id_of("parcels"), partition_indexes=[0]),
    ]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)])
    found_groups = bench.call(request, OffsetFetchResponse, 10).groups[0].topics
    assert [topic.topic_id for topic in found_groups] == [topics[at].topic_id for at in (0, 2, 1)]
    assert [topic.partitions[0].committed_offset for topic in found_groups] == [5, 6, -1]
    assert [topic.partitions[0].error_code for topic in found_groups] == [0, 0, ErrorCode.UNKNOWN_TOPIC_ID]


def test_offset_of_a_deleted_topic_with_the_same_name_does_not_count() -> None:
    bench = GroupBench()
    commit(bench, 5, version=10)
    commit_in_transaction(bench, 7, 6, topic="parcels")
    bench.end_transaction(7, commit=True)
    # The new view arrives without the notification of the deletion, which would remove the offsets.
    bench.change_topics(Topics({"orders": 4, "parcels": 2}, version=1, first_id=2_000))
    topics = [
        OffsetFetchRequestTopics(topic_id=bench.topics.id_of(name), partition_indexes=[0])
        for name in ("orders", "parcels")
    ]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)])
    found_groups = bench.call(request, OffsetFetchResponse, 10).groups[0].topics
    assert [topic.partitions[0].committed_offset for topic in found_groups] == [-1, 6], (
        "the second topic has no id"
    )
    assert fetch(bench) == 5, "a fetch by name returns the offset committed under that name"


def test_all_topics_by_id_omits_topics_without_an_id() -> None:
    bench = GroupBench()
    commit(bench, 5, version=10)
    commit(bench, 6, topic="parcels", version=10)
    kept = Topics({"orders": 4})
    bench.change_topics(kept)
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
    found_groups = bench.call(request, OffsetFetchResponse, 10).groups[0].topics
    assert [topic.topic_id for topic in found_groups] == [kept.id_of("orders")]


def test_stable_fetch_of_pending_offsets() -> None:
    bench = GroupBench()
    commit(bench, 1)
    commit(bench, 2, partition=1)
    commit_in_transaction(bench, 7, 10)
    commit_in_transaction(bench, 7, 20, partition=2)
    unstable = ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert fetch(bench, stable=True) is unstable
    assert fetch(bench, partition=1, stable=True) == 2
    assert fetch(bench, partition=2, stable=True) is unstable
    assert fetch_all(bench, stable=True) == {("orders", 0): unstable, ("orders", 1): 2}
    assert fetch_all(bench) == {("orders", 0): 1, ("orders", 1): 2}
