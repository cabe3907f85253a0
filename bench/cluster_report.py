"""The targets for a cluster of three nodes, and the docs page with the results."""

from __future__ import annotations

from bench.cluster_faults import CONTROLLER_KILLS, KILLS
from bench.cluster_load import LONE_RECORDS, PARTITIONS, RECORDS
from bench.table import Results, Row, machine, markdown_table

ROWS = [
    Row("produce 1 KB, acks=all", "produce", "mb_per_s", "MB/s", "more", 3.0, 0),
    Row("produce 1 KB, processor of the three", "produce", "cpu_s_per_gb", "CPU-s/GB", "less"),
    Row("memory of the three, after the load", "produce", "memory_mb", "MB", "less", 0.12, 0),
    Row("one record at a time, ack p50", "latency", "ack_p50_ms", "ms", "less", 0.3),
    Row("one record at a time, ack p99", "latency", "ack_p99_ms", "ms", "less", 0.3),
    Row("kill -9 of a broker, longest stall", "kill-9", "stall_s", "s", "less", wanted_value=1),
    Row("the worst of them", "kill-9", "longest_stall_s", "s", "less"),
    Row("controller killed, stall of CreateTopics", "controller", "stall_s", "s", "less", wanted_value=1),
    Row("rolling restart, longest stall", "rolling-restart", "stall_s", "s", "less", wanted_value=1),
    Row("rolling restart, failed records", "rolling-restart", "failed", "", "less", None, 0, 1.0, 0),
]


def markdown_page(results: Results, command: str, load_average: float) -> str:
    return f"""# Benchmarks of a cluster

Three nodes of Ruslo and three of Apache Kafka 4.3.0 run one after the other on the same machine, under the
same clients, which share the processors with them. `ratio` is Ruslo's figure divided by Apache Kafka's.

{markdown_table(results, ROWS)}

Measured by `{command}` on {machine()}, with a load average of {load_average:.1f} before it began.

How it is measured:

- **Set-up.** Three nodes with both roles, all timeouts at their defaults, Apache Kafka with the heap and
  the collector of its own start script; topics with three replicas and `min.insync.replicas=2`.
- **Load.** `bench/load.c` (librdkafka) produces {RECORDS:,} records of 1 KB to {PARTITIONS} partitions, and
  {LONE_RECORDS:,} records of 100 bytes to one partition, each after the ack of the previous one; the second
  of two rounds counts.
- **Stalls.** A stall is the longest time between two acks of one partition, over all partitions, seen by a
  librdkafka producer with default settings that sends to {PARTITIONS} partitions all the time. The broker
  that leads most partitions is killed {KILLS} times, the active controller {CONTROLLER_KILLS} times, and
  the median counts. A stall of CreateTopics is the longest time, with retries, that an admin client
  (librdkafka) needs to create a topic.
"""
