"""The results of the pipelines, as read by a read_committed consumer."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping

from ruslo.cli.demo.events import order_number
from ruslo.cli.demo.ledger import CityTotals
from ruslo.cli.demo.spark import RECEIPTS
from ruslo.client.librdkafka.consumed_record import ConsumedRecord, PartitionEnd
from ruslo.client.librdkafka.consumer import Consumer
from ruslo.client.settings.setting import ConfigValue
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import TopicPartition

_READ_TIMEOUT_S = 60.0


class Results:
    def __init__(self) -> None:
        self.receipts: dict[int, int] = {}
        """Number of receipts by order number."""
        self.totals: dict[str, CityTotals] = {}
        """The last totals of each city."""

    def add(self, record: ConsumedRecord) -> None:
        fields = json.loads(record.value or b"{}")
        if record.topic == RECEIPTS:
            number = order_number(fields["order_id"])
            self.receipts[number] = self.receipts.get(number, 0) + 1
        else:
            counted = CityTotals(fields["orders"], fields["declined"], fields["paid_cents"])
            self.totals[fields["city"]] = counted


def read_results(config: Mapping[str, ConfigValue], starts: Mapping[TopicPartition, int]) -> Results:
    """Read all results from these offsets to the ends of the partitions."""
    results = Results()
    left = set(starts)
    with Consumer({**config, "isolation.level": "read_committed", "enable.partition.eof": True}) as consumer:
        consumer.assign(starts)
        deadline = time.monotonic() + _READ_TIMEOUT_S
        while left:
            for event in consumer.poll_events(0.5):
                deadline = time.monotonic() + _READ_TIMEOUT_S
                if isinstance(event, PartitionEnd):
                    left.discard(TopicPartition(event.topic, event.partition))
                else:
                    results.add(event)
            if time.monotonic() > deadline:
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"Reading {min(left)} to its end timed out")
    return results
