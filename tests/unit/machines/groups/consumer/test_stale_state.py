"""State that must not remain after a conversion of the group or a late commit of a record."""

from __future__ import annotations

from ruslo.machines.groups.classic.group import ClassicGroup
from ruslo.machines.groups.consumer.group import ConsumerGroup
from ruslo.machines.groups.timers import TimerKey, TimerKind
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.consumer_group_heartbeat_request import TopicPartitions
from tests.support.groups.classic_client import SESSION_MS, ClassicClient
from tests.support.groups.consumer_transcript import Consumer, Transcript


def mixed_group(transcript: Transcript) -> tuple[Consumer, ClassicClient]:
    """The group has one member of each protocol; the classic one is between JoinGroup and SyncGroup."""
    consumer, classic = Consumer(transcript, "a", "orders"), ClassicClient(transcript.bench, "c")
    consumer.join()
    transcript.bench.advance(1_000)
    classic.join()
    return consumer, classic


def test_timers_of_classic_members_do_not_survive_a_downgrade() -> None:
    transcript = Transcript()
    consumer, classic = mixed_group(transcript)
    state = transcript.bench.shard.state
    assert state.timers.get(TimerKey("g", classic.member_id, TimerKind.SYNC)) is not None
    consumer.leave()
    group = state.groups["g"]
    assert isinstance(group, ClassicGroup)
    transcript.bench.advance(1)
    response = classic.join()
    assert response is not None
    assert response.error_code == ErrorCode.NONE
    classic.sync({classic.member_id: b""})
    generation = group.generation
    for _ in range(10):
        # The member's SyncGroup timeout of 30 s expires in between.
        transcript.bench.advance(SESSION_MS // 2)
        assert classic.heartbeat() is ErrorCode.NONE
    assert group.generation == generation


def test_fencing_that_commits_late_is_not_repeated() -> None:
    transcript = Transcript()
    _, classic = mixed_group(transcript)
    classic.sync()
    while "a" in transcript.bench.shard.state.groups["g"].members:  # type: ignore[attr-defined]
        transcript.bench.commit_error = ErrorCode.REQUEST_TIMED_OUT
        transcript.bench.advance(SESSION_MS // 2)
        transcript.bench.commit_error = None
        classic.heartbeat()
    group = transcript.bench.shard.state.groups["g"]
    assert isinstance(group, ClassicGroup)
    assert transcript.bench.shard.state.timers.get(TimerKey("g", "a", TimerKind.SESSION)) is None
    transcript.bench.advance(1_000)
    assert classic.member_id in group.members


def test_upgrade_before_the_first_generation_starts_at_epoch_one() -> None:
    transcript = Transcript()
    classic = ClassicClient(transcript.bench, "c")
    classic.join()
    assert classic.waits
    consumer = Consumer(transcript, "a", "orders")
    assert consumer.join().error_code == ErrorCode.NONE
    group = transcript.bench.shard.state.groups["g"]
    assert isinstance(group, ConsumerGroup)
    assert group.members[classic.member_id].epoch == 1
    assert consumer.epoch == 2


def test_topic_listed_twice_counts_both_times() -> None:
    transcript = Transcript()
    a, b = Consumer(transcript, "a", "orders"), Consumer(transcript, "b", "orders")
    a.join()
    transcript.bench.advance(1_000)
    b.join()
    (topic_id,) = a.owned
    owned = [TopicPartitions(topic_id=topic_id, partitions=[each]) for each in reversed(a.owned[topic_id])]
    a.send("lists every partition separately", topic_partitions=owned)
    group = transcript.bench.shard.state.groups["g"]
    assert isinstance(group, ConsumerGroup)
    assert group.members["a"].epoch == 2
    assert b.report_owned().assignment is None


def emptied_consumer_group() -> Transcript:
    """The group has an offset, so it does not expire."""
    transcript = Transcript()
    consumer = Consumer(transcript, "a", "orders")
    consumer.join()
    consumer.leave()
    assert ClassicClient(transcript.bench, "a").commit(5) is ErrorCode.NONE
    return transcript


def test_failed_conversion_keeps_the_consumer_group() -> None:
    transcript = emptied_consumer_group()
    transcript.bench.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    response = ClassicClient(transcript.bench, "c").join()
    assert response is not None
    assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert isinstance(transcript.bench.shard.state.groups["g"], ConsumerGroup)
    written = len(transcript.bench.log)
    transcript.bench.advance(60_000)
    assert len(transcript.bench.log) == written


def test_group_whose_first_record_commits_late_exists() -> None:
    transcript = Transcript()
    transcript.bench.commit_error = ErrorCode.REQUEST_TIMED_OUT
    response = ClassicClient(transcript.bench, "c").join()
    assert response is not None
    assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    # Without the classic group's tombstone the log could not be loaded.
    assert Consumer(transcript, "a", "orders").join().error_code == ErrorCode.NONE
    transcript.reload()
    assert isinstance(transcript.bench.shard.state.groups["g"], ConsumerGroup)
