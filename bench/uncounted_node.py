"""A Ruslo node that counts nothing: ``python -m bench.uncounted_node server.properties``.

What metrics cost cannot be turned off, because it is next to nothing. To show that, this node has everything
taken out that was put into the hot path for them; ``metrics_scenario`` holds a usual node against it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ruslo.broker.counters.api_stats import ApiStats
from ruslo.broker.counters.traffic import TopicTraffic
from ruslo.broker.handlers.consumer_fetch import ConsumerFetch
from ruslo.broker.metrics.loop_watch import LoopWatch
from ruslo.broker.node.node import run
from ruslo.broker.partitions.ack_wait import Appended
from ruslo.broker.partitions.leader import PartitionLeader
from ruslo.broker.partitions.partition import Partition
from ruslo.config.broker import BrokerConfig
from ruslo.config.properties import decode_properties, parse_properties
from ruslo.storage.log import AppendResult
from tests.support.brokers.ruslo import RusloNode


class UncountedNode(RusloNode):
    def serve_command(self) -> list[str]:
        return [sys.executable, "-m", "bench.uncounted_node", str(self.properties_file)]


def appended(
    partition: Partition, leader: PartitionLeader, result: AppendResult, size: int, records: int
) -> Appended:
    """``Partition._appended`` without the counting."""
    end_offset = result.last_offset + 1
    if not result.duplicate:
        leader.on_append(size)
    return Appended(
        partition,
        result.base_offset,
        result.log_append_time_ms,
        end_offset,
        partition.leader_epoch,
        partition.log.high_watermark >= end_offset,
    )


def not_recorded(stats: ApiStats, begun_ns: int) -> None:
    pass


def not_counted(fetch: ConsumerFetch, traffic: TopicTraffic, size: int) -> None:
    pass


def not_watched(watch: LoopWatch) -> None:
    pass


def main(properties: str) -> int:
    Partition._appended = appended  # type: ignore[method-assign, assignment]
    ApiStats.record_response = not_recorded  # type: ignore[method-assign, assignment]
    ConsumerFetch._count = not_counted  # type: ignore[method-assign, assignment]
    LoopWatch.start = not_watched  # type: ignore[method-assign, assignment]
    config = BrokerConfig.from_properties(parse_properties(decode_properties(Path(properties).read_bytes())))
    return run(config, lambda node: None)


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
