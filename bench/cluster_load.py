"""The cost of replication without faults: throughput, CPU time, latency and memory."""

from __future__ import annotations

from bench.cluster_setting import Cluster, ClusterSetting, create_replicated_topic, running_cluster
from bench.contenders import run_load
from bench.measure import GB, cpu_s, resident_mb, warm_memory
from bench.setting import Figures

PARTITIONS = 6
RECORDS = 500_000
RECORD_BYTES = 1024
LONE_RECORDS = 5_000
LONE_RECORD_BYTES = 100
ROUNDS = 2  # the last one counts: the first warms the JVM, the caches and the pages


def produce(setting: ClusterSetting) -> Figures:
    """Records of 1 KB, acks=all, as fast as they are acknowledged; then the memory of the nodes."""
    records = RECORDS // setting.divisor
    with running_cluster(setting) as cluster:
        for round_number in range(ROUNDS):
            topic = f"load-{round_number}"
            create_replicated_topic(cluster, topic, PARTITIONS)
            warm_memory(setting.warm_bytes)
            before_s = _cpu_s(cluster)
            figures = run_load(setting.program, "produce", cluster, topic, records, RECORD_BYTES)
            used_s = _cpu_s(cluster) - before_s
        return {
            "mb_per_s": figures["mb_per_s"],
            "cpu_s_per_gb": used_s / (figures["bytes"] / GB),
            "memory_mb": sum(resident_mb(node.pid) for node in cluster.nodes.values()),
        }


def latency(setting: ClusterSetting) -> Figures:
    """One record of 100 bytes at a time, each after the ack of the one before."""
    records = LONE_RECORDS // setting.divisor
    with running_cluster(setting) as cluster:
        create_replicated_topic(cluster, "latency", 1)
        for _ in range(ROUNDS):
            figures = run_load(setting.program, "latency", cluster, "latency", records, LONE_RECORD_BYTES)
    return {f"ack_{key}": value for key, value in figures.items() if key.endswith("_ms")}


def _cpu_s(cluster: Cluster) -> float:
    return sum(cpu_s(node.pid) for node in cluster.nodes.values())
