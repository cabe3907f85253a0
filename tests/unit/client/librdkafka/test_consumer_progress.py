from __future__ import annotations

from ruslo.client.librdkafka.consumer_progress import ConsumerProgress, Position
from ruslo.model.topics import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def test_a_record_is_processed_when_the_next_is_requested() -> None:
    progress = ConsumerProgress()
    progress.deliver(A, 4, 2)
    assert progress.take_to_store() == {}
    progress.mark_processed()
    assert progress.take_to_store() == {A: Position(5, 2)}
    assert progress.take_to_store() == {}


def test_positions_are_after_all_delivered_records() -> None:
    progress = ConsumerProgress()
    progress.deliver(A, 4, None)
    progress.mark_processed()
    progress.deliver(A, 5, None)
    progress.deliver(B, 0, None)
    assert {p: position.offset for p, position in progress.positions().items()} == {A: 6, B: 1}


def test_lost_partitions_are_forgotten() -> None:
    progress = ConsumerProgress()
    progress.deliver(A, 1, None)
    progress.mark_processed()
    progress.deliver(A, 2, None)
    progress.deliver(B, 1, None)
    progress.forget([A])
    progress.mark_processed()
    assert progress.take_to_store() == {B: Position(2, -1)}
    assert list(progress.positions()) == [B]
