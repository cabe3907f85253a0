"""The cost of metrics: a node that counts and is scraped every second, compared with one that does neither.

Both run at the same time on their own directories and are loaded in turn, so that what disturbs the machine
disturbs both. Processor time decides, and of that the least of many short rounds: throughput, and the time of
a round beside other work, vary by more than what is measured, and what disturbs only ever adds.
"""

from __future__ import annotations

import contextlib
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import replace

from bench.contenders import COMMON_PROPERTIES, new_ruslo, run_load
from bench.measure import GB, exact_cpu_s, warm_memory
from bench.setting import Figures, Setting, create_topics, delete_topics, running_node
from bench.uncounted_node import UncountedNode
from tests.support.brokers.node import Node
from tests.support.brokers.ruslo import RusloNode
from tests.support.network.ports import free_port

ROUNDS = 15
RECORDS = 300_000
SMALL_RECORDS = 10_000
PARTITIONS = 6
SCRAPE_EVERY_S = 1.0


def metrics(setting: Setting) -> Figures:
    """Ruslo only: the metrics of Apache Kafka cannot be disabled."""
    if setting.new_node is not new_ruslo:
        return {}
    listener = f"127.0.0.1:{free_port()}"
    counted = setting.with_node(
        lambda folder: RusloNode(folder, properties={**COMMON_PROPERTIES, "ruslo.metrics.listener": listener})
    )
    uncounted = setting.with_node(
        lambda folder: UncountedNode(folder, properties={**COMMON_PROPERTIES, "ruslo.metrics.listener": ""})
    )
    uncounted = replace(uncounted, folder=setting.folder.with_name(f"{setting.folder.name}-uncounted"))
    with running_node(counted) as with_metrics, running_node(uncounted) as without:
        nodes = {"counted": with_metrics, "uncounted": without}
        for node in nodes.values():
            node.start()
            create_topics(node, {"small": 1})
        with scraped(f"http://{listener}/metrics"):
            return measure(setting, nodes)


def measure(setting: Setting, nodes: dict[str, Node]) -> Figures:
    large: dict[str, list[float]] = {name: [] for name in nodes}
    small: dict[str, list[float]] = {name: [] for name in nodes}
    # The first round warms up. Who comes first changes from round to round.
    for number in range(ROUNDS + 1):
        for name in sorted(nodes, reverse=number % 2 == 0):
            node = nodes[name]
            large_cost, small_cost = one_round(setting, node)
            if number:
                large[name].append(large_cost)
                small[name].append(small_cost)
    figures: Figures = {}
    for name in nodes:
        figures[f"{name}_cpu_s_per_gb"] = min(large[name])
        figures[f"{name}_cpu_us_per_request"] = min(small[name])
    for kind, costs in (("produce", large), ("request", small)):
        figures[f"{kind}_cost_ratio"] = min(costs["counted"]) / min(costs["uncounted"])
    return figures


def one_round(setting: Setting, node: Node) -> tuple[float, float]:
    """Return CPU seconds for a GB of 1 KB records, and CPU microseconds for a small request."""
    create_topics(node, {"load": PARTITIONS})
    warm_memory(setting.warm_bytes)
    before_s = exact_cpu_s(node.pid)
    figures = run_load(setting.program, "produce", node, "load", RECORDS // setting.divisor, 1024)
    between_s = exact_cpu_s(node.pid)
    records = SMALL_RECORDS // setting.divisor
    run_load(setting.program, "latency", node, "small", records, 100)
    after_s = exact_cpu_s(node.pid)
    delete_topics(node, ["load"])
    return (between_s - before_s) / (figures["bytes"] / GB), (after_s - between_s) / records * 1e6


@contextlib.contextmanager
def scraped(url: str) -> Iterator[None]:
    """Scrape every second while the context lasts."""
    over = threading.Event()

    def scrape() -> None:
        while not over.wait(SCRAPE_EVERY_S):
            with urllib.request.urlopen(url, timeout=10) as response:
                response.read()

    thread = threading.Thread(target=scrape)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
