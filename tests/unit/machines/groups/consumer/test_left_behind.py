"""What a change of kind, or a record that was confirmed too late, must not leave behind."""

from __future__ import annotations

from ruslo.machines.groups.classic.group import ClassicGroup
from ruslo.machines.groups.consumer.group import ConsumerGroup
from ruslo.machines.groups.timers import TimerKey, TimerKind
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.consumer_group_heartbeat_request import TopicPartitions
from tests.support.groups.classic_client import SESSION_MS, ClassicClient
from tests.support.groups.consumer_transcript import Consumer, Story


def mixed_group(story: Story) -> tuple[Consumer, ClassicClient]:
    """One member of each protocol, the classic one between its JoinGroup and its SyncGroup."""
    consumer, classic = Consumer(story, "a", "orders"), ClassicClient(story.bench, "c")
    consumer.join()
    story.bench.advance(1_000)
    classic.join()
    return consumer, classic


def test_timers_of_classic_members_do_not_survive_a_downgrade() -> None:
    story = Story()
    consumer, classic = mixed_group(story)
    state = story.bench.shard.state
    assert state.timers.get(TimerKey("g", classic.member_id, TimerKind.SYNC)) is not None
    consumer.leave()
    group = state.groups["g"]
    assert isinstance(group, ClassicGroup)
    story.bench.advance(1)
    response = classic.join()
    assert response is not None
    assert response.error_code == ErrorCode.NONE
    classic.sync({classic.member_id: b""})
    generation = group.generation
    for _ in range(10):
        # The member's old time for SyncGroup, 30 s, runs out on the way.
        story.bench.advance(SESSION_MS // 2)
        assert classic.beat() is ErrorCode.NONE
    assert group.generation == generation


def test_a_fencing_that_is_confirmed_too_late_is_not_repeated() -> None:
    story = Story()
    _, classic = mixed_group(story)
    classic.sync()
    while "a" in story.bench.shard.state.groups["g"].members:  # type: ignore[attr-defined]
        story.bench.commit_error = ErrorCode.REQUEST_TIMED_OUT
        story.bench.advance(SESSION_MS // 2)
        story.bench.commit_error = None
        classic.beat()
    group = story.bench.shard.state.groups["g"]
    assert isinstance(group, ClassicGroup)
    assert story.bench.shard.state.timers.get(TimerKey("g", "a", TimerKind.SESSION)) is None
    story.bench.advance(1_000)
    assert classic.member_id in group.members


def test_upgrade_before_the_first_generation_begins_at_one() -> None:
    story = Story()
    classic = ClassicClient(story.bench, "c")
    classic.join()
    assert classic.waits
    consumer = Consumer(story, "a", "orders")
    assert consumer.join().error_code == ErrorCode.NONE
    group = story.bench.shard.state.groups["g"]
    assert isinstance(group, ConsumerGroup)
    assert group.members[classic.member_id].epoch == 1
    assert consumer.epoch == 2


def test_a_topic_that_is_listed_twice_counts_both_times() -> None:
    story = Story()
    a, b = Consumer(story, "a", "orders"), Consumer(story, "b", "orders")
    a.join()
    story.bench.advance(1_000)
    b.join()
    (topic_id,) = a.owned
    owned = [TopicPartitions(topic_id=topic_id, partitions=[each]) for each in reversed(a.owned[topic_id])]
    a.send("lists every partition by itself", topic_partitions=owned)
    group = story.bench.shard.state.groups["g"]
    assert isinstance(group, ConsumerGroup)
    assert group.members["a"].epoch == 2
    assert b.own().assignment is None


def emptied_consumer_group() -> Story:
    """With an offset, so that it is not forgotten."""
    story = Story()
    consumer = Consumer(story, "a", "orders")
    consumer.join()
    consumer.leave()
    assert ClassicClient(story.bench, "a").commit(5) is ErrorCode.NONE
    return story


def test_a_failed_conversion_keeps_the_consumer_group() -> None:
    story = emptied_consumer_group()
    story.bench.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    response = ClassicClient(story.bench, "c").join()
    assert response is not None
    assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert isinstance(story.bench.shard.state.groups["g"], ConsumerGroup)
    written = len(story.bench.log)
    story.bench.advance(60_000)
    assert len(story.bench.log) == written


def test_a_group_whose_first_record_committed_late_exists() -> None:
    story = Story()
    story.bench.commit_error = ErrorCode.REQUEST_TIMED_OUT
    response = ClassicClient(story.bench, "c").join()
    assert response is not None
    assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    # Without the classic group's tombstone the log could not be loaded again.
    assert Consumer(story, "a", "orders").join().error_code == ErrorCode.NONE
    story.reload()
    assert isinstance(story.bench.shard.state.groups["g"], ConsumerGroup)
