from __future__ import annotations

import pytest

from ruslo.cli.arguments.partition_scope import Scope
from ruslo.cli.txn.view import ProducerRow, partitions_of, producer_row
from ruslo.client.admin.producers import ActiveProducer
from ruslo.client.wire.metadata import ClusterMetadata, PartitionInfo, TopicInfo
from ruslo.model.errors import KafkaError
from ruslo.model.topics import TopicPartition


def test_missing_fields_of_a_producer_are_none() -> None:
    row = producer_row(TopicPartition("t", 2), ActiveProducer(7, 0, -1, -1, -1, -1))
    assert row == ProducerRow("t", 2, 7, 0, None, None, None, None)
    row = producer_row(TopicPartition("t", 2), ActiveProducer(7, 0, 0, 0, 0, 0))
    assert row == ProducerRow("t", 2, 7, 0, 0, 0, 0, 0)


def test_partitions_of_scopes() -> None:
    partitions = tuple(PartitionInfo(number, 1, 0, (1,), (1,), ()) for number in range(3))
    metadata = ClusterMetadata(None, 1, {}, {"t": TopicInfo("t", bytes(16), False, partitions)})
    assert partitions_of(metadata, [Scope("t", None)]) == [TopicPartition("t", n) for n in range(3)]
    # A partition that does not exist fails later, in the lookup of its leader.
    assert partitions_of(metadata, [Scope("t", (7, 1)), Scope("t", (1,))]) == [
        TopicPartition("t", 1),
        TopicPartition("t", 7),
    ]
    with pytest.raises(KafkaError, match="'none' does not exist"):
        partitions_of(metadata, [Scope("none", (0,))])
