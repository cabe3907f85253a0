"""A connection storm beside a steady producer: what connects cost those who are connected already.

The storm is a process of its own. It opens connections to a PLAINTEXT, an SSL and a SASL_PLAINTEXT listener,
waits for one response on each and closes it, a hundred at a time. The producer was connected before.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.contenders import new_ceiling, run_load
from bench.measure import cpu_s, warm_memory
from bench.security_scenario import Listener, secured
from bench.setting import Figures, Setting, create_topics

ROOT = Path(__file__).resolve().parent.parent
RECORDS = 300_000
SHORTEST_RECORDS = 60_000
RECORD_BYTES = 100
TOPIC = "steady"
LIMIT_PER_S = 20
LIMIT = {"max.connection.creation.rate": str(LIMIT_PER_S)}
CONNECT_S = 1.0
"""The producer connects in this time; a limited broker would otherwise let it wait behind the storm."""


def storm(setting: Setting) -> Figures:
    """The p99 of a producer without a storm, in one, and in one that the broker limits."""
    if setting.new_node is new_ceiling:
        return {}
    figures: Figures = {}
    for name, properties in (("storm", {}), ("limited_storm", LIMIT)):
        with secured(setting, "PLAINTEXT", properties, name) as listener:
            figures |= measured(setting, listener, name)
    for name in ("storm", "limited_storm"):
        figures[f"{name}_p99_ratio"] = figures[f"{name}_p99_ms"] / figures["calm_p99_ms"]
    return figures


def measured(setting: Setting, listener: Listener, name: str) -> Figures:
    create_topics(listener.node, {TOPIC: 1})
    figures: Figures = {}
    if name == "storm":
        steady(setting, listener)  # warms up
        figures["calm_p99_ms"] = steady(setting, listener)["p99_ms"]
    counts: dict[str, float] = {}
    cpu_before_s, begun_s = cpu_s(listener.node.pid), time.monotonic()
    with storming(listener.address_of, counts):
        latency = steady(setting, listener)
    took_s = time.monotonic() - begun_s
    return figures | {
        f"{name}_p99_ms": latency["p99_ms"],
        f"{name}_max_ms": latency["max_ms"],
        f"{name}_connects_per_s": counts["connects"] / counts["seconds"],
        f"{name}_cpu_share": (cpu_s(listener.node.pid) - cpu_before_s) / took_s,
    }


def steady(setting: Setting, listener: Listener) -> Figures:
    warm_memory(setting.warm_bytes)
    records = max(RECORDS // setting.divisor, SHORTEST_RECORDS)
    return run_load(setting.program, "latency", listener, TOPIC, records, RECORD_BYTES)


@contextlib.contextmanager
def storming(addresses: Mapping[str, str], counts: dict[str, float]) -> Iterator[None]:
    """Connect for as long as the context lasts; adds the number of connects and the seconds to ``counts``."""
    processes: list[subprocess.Popen[str]] = []

    def start() -> None:
        command = [sys.executable, "-m", "bench.storm", json.dumps(dict(addresses))]
        processes.append(
            subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True)
        )

    timer = threading.Timer(CONNECT_S, start)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        for process in processes:
            process.send_signal(signal.SIGTERM)
            counts |= json.loads(process.communicate(timeout=30)[0])
    if not processes:
        raise RuntimeError("the steady load ended before the storm began; give it more records")
