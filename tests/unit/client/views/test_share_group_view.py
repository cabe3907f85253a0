from __future__ import annotations

from ruslo.client.views.share_group_view import InFlight, read_in_flight
from ruslo.model.topics import TopicPartition

FIRST = b"""\
kafka_server_sharepartitionmetrics_inflightmessagecount{group="queue",topic="t",partition="0"} 12
kafka_server_sharepartitionmetrics_inflightmessagecount{group="other",topic="t",partition="0"} 99
ruslo_share_partition_locked_records{group="queue",topic="t",partition="0"} 5
ruslo_share_partition_oldest_lock_seconds{group="queue",topic="t",partition="0"} 1.5
ruslo_share_partition_delivery_count_max{group="queue",topic="t",partition="0"} 3
"""
SECOND = b"""\
kafka_server_sharepartitionmetrics_inflightmessagecount{group="queue",topic="t",partition="1"} 4
ruslo_share_partition_locked_records{group="queue",topic="t",partition="1"} 0
ruslo_share_partition_oldest_lock_seconds{group="queue",topic="t",partition="1"} 0
"""


def test_what_is_in_flight_comes_from_the_metrics_of_all_brokers() -> None:
    assert read_in_flight([FIRST, SECOND], "queue") == {
        TopicPartition("t", 0): InFlight(12, 5, 1.5, 3),
        TopicPartition("t", 1): InFlight(4, 0, None, None),
    }


def test_brokers_without_these_metrics() -> None:
    assert read_in_flight([b"up 1\n"], "queue") == {}
