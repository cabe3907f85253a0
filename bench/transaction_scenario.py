"""The cost of transactions: many small ones, and one with a thousand partitions."""

from __future__ import annotations

import time

from bench.contenders import COMMON_PROPERTIES, new_ceiling, new_ruslo, newest_librdkafka, run_load
from bench.measure import cpu_s, warm_memory
from bench.probed_node import ProbedNode
from bench.setting import Figures, Setting, create_topics, running_node
from tests.support.brokers.node import Node

PRODUCERS = (1, 20, 50)
PARTITIONS = 12
ROUNDS = 2  # the last one counts: the first warms the JVM
SECONDS = 10
SHORTEST_S = 3
WIDE_PARTITIONS = 1_000
WIDE_RECORDS = 1_000_000
RECORD_SIZE = 100
SETTLED_S = 0.3


def transactions(setting: Setting) -> Figures:
    figures = small_ones(setting)
    return figures if setting.new_node is new_ceiling else figures | wide_one(setting)


def small_ones(setting: Setting) -> Figures:
    """Five records on two partitions and a commit, from one producer and from many.

    With two versions of librdkafka: Debian's, which waits long when it meets CONCURRENT_TRANSACTIONS, and the
    newest.
    """
    figures: Figures = {}
    seconds = max(SECONDS // setting.divisor, SHORTEST_S)
    libraries = {"small": {}, "newest_small": newest_librdkafka(setting.program)}
    with running_node(setting) as node:
        node.start()
        create_topics(node, {"small": PARTITIONS})
        for round_number in range(ROUNDS):
            for name, environment in libraries.items():
                for producers in PRODUCERS:
                    length_s = seconds if round_number == ROUNDS - 1 else SHORTEST_S
                    measured = _small_ones_of(setting, node, length_s, producers, environment)
                    figures |= {f"{name}_{producers}_{figure}": value for figure, value in measured.items()}
    return figures


def _small_ones_of(
    setting: Setting, node: Node, seconds: int, producers: int, environment: dict[str, str]
) -> Figures:
    warm_memory(setting.warm_bytes)
    before_s = cpu_s(node.pid)
    measured = run_load(setting.program, "small", node, "small", seconds, producers, environment)
    used_s = cpu_s(node.pid) - before_s
    return {
        "per_s": measured["per_s"],
        "p50_ms": measured["p50_ms"],
        "p99_ms": measured["p99_ms"],
        "cpu_ms_each": used_s * 1000 / measured["transactions"],
        "client_cpu_ms_each": measured["client_cpu_ms_each"],
    }


def wide_one(setting: Setting) -> Figures:
    """A million records on a thousand partitions, committed together."""
    if setting.new_node is new_ruslo:
        setting = setting.with_node(lambda folder: ProbedNode(folder, properties=COMMON_PROPERTIES))
    with running_node(setting) as node:
        node.start()
        create_topics(node, {"wide": WIDE_PARTITIONS})
        warm_memory(setting.warm_bytes)
        start_s = time.monotonic()
        records = WIDE_RECORDS // setting.divisor
        environment = newest_librdkafka(setting.program)
        measured = run_load(setting.program, "wide", node, "wide", records, RECORD_SIZE, environment)
        figures = {
            "wide_write_s": measured["write_s"],
            # Until the id can be used again: by then every partition has its marker.
            "wide_end_s": measured["commit_s"] + measured["next_s"],
        }
        return figures | _steps(node, start_s)


def _steps(node: Node, since_s: float) -> Figures:
    if not isinstance(node, ProbedNode):
        return {}
    time.sleep(SETTLED_S)
    return {"wide_longest_step_ms": node.longest_step_ms(since_s, time.monotonic())}
