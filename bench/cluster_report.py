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

Three nodes of Ruslo and three of Apache Kafka 4.3.0 in turn on the same machine, under the same clients,
which share the processors with them. `ratio` is Ruslo's figure divided by Apache Kafka's.

{markdown_table(results, ROWS)}

Made by `{command}` on {machine()}, with a load average of {load_average:.1f} before it began.

How it is measured: three nodes with both roles, all time-outs at their defaults, Apache Kafka with the heap
and the collector of its own start script; topics with three copies and `min.insync.replicas` 2.
`bench/load.c` (librdkafka) produces {RECORDS:,} records of 1 KB to {PARTITIONS} partitions, and
{LONE_RECORDS:,} records of 100 bytes to one partition, each waiting for the ack of the one before; the second
of two rounds counts. A stall is the longest time between two acks of one partition, whichever was worst, seen
by a librdkafka producer at its defaults that sends to {PARTITIONS} partitions all the time. The broker that
leads most is killed {KILLS} times, the active controller {CONTROLLER_KILLS} times, and the median counts; a
stall of CreateTopics is the longest time that an admin client (librdkafka) needs to create a topic, with what
it has to try again.
"""
