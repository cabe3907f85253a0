"""The two brokers of a benchmark, and the load program that both are given."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.kafka import BENCH_JAVA_OPTIONS, ApacheKafka
from tests.support.node import Node
from tests.support.ruslo import RusloNode
from tests.support.wire import wait_for_metadata

LOAD_SOURCE = Path(__file__).with_name("load.c")

# Both write to the page cache and keep everything: nothing is deleted or flushed behind a measurement's back.
COMMON_PROPERTIES = {"num.partitions": "6", "auto.create.topics.enable": "false"}


def new_ruslo(directory: Path) -> Node:
    return RusloNode(directory, properties=COMMON_PROPERTIES)


def new_apache_kafka(directory: Path) -> Node:
    return ApacheKafka(directory, properties=COMMON_PROPERTIES, java_options=BENCH_JAVA_OPTIONS)


CONTENDERS: dict[str, Callable[[Path], Node]] = {"ruslo": new_ruslo, "kafka": new_apache_kafka}


def seconds_to_first_answer(node: Node) -> float:
    """Launch a formatted node; the time from the start of its process to its first Metadata answer."""
    node.format_if_new()
    start = time.monotonic()
    node.launch()
    wait_for_metadata("127.0.0.1", node.port, node.process, timeout_s=120, pause_s=0.002)
    return time.monotonic() - start


def build_load_program(folder: Path) -> Path:
    """Compile load.c unless the compiled program is newer."""
    program = folder / "load"
    if not program.exists() or program.stat().st_mtime < LOAD_SOURCE.stat().st_mtime:
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["gcc", "-O2", str(LOAD_SOURCE), "-lrdkafka", "-o", str(program)], check=True)
    return program


def run_load(program: Path, mode: str, node: Node, topic: str, records: int, size: int) -> dict[str, float]:
    """One run of the load program; its figures."""
    command = [str(program), mode, node.bootstrap, topic, str(records), str(size)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=400)
    if result.returncode != 0:
        raise RuntimeError(f"load {mode} on {node.name} failed: {result.stderr.strip()}\n{node.log_tail(10)}")
    figures = json.loads(result.stdout)
    return {key: float(value) for key, value in figures.items() if key != "mode"}
