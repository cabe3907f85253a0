"""The brokers that are measured, and the load program for all of them."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import confluent_kafka

from bench.ceiling import SOURCE as CEILING_SOURCE
from bench.ceiling import Ceiling
from tests.support.brokers.kafka import ApacheKafka
from tests.support.brokers.node import Node
from tests.support.brokers.ruslo import RusloNode
from tests.support.network.ports import wait_for_metadata
from tests.support.tools.kafka_jars import BENCH_JAVA_OPTIONS

LOAD_SOURCES = [Path(__file__).with_name(name) for name in ("load.c", "fetch.c", "transactions.c")]
LOAD_HEADER = Path(__file__).with_name("load.h")

# Both write to the page cache and keep everything: nothing is deleted or flushed during a measurement.
COMMON_PROPERTIES = {"num.partitions": "6", "auto.create.topics.enable": "false"}


def new_ruslo(directory: Path) -> Node:
    return RusloNode(directory, properties=COMMON_PROPERTIES)


def new_apache_kafka(directory: Path) -> Node:
    return ApacheKafka(directory, properties=COMMON_PROPERTIES, java_options=BENCH_JAVA_OPTIONS)


def new_ceiling(directory: Path) -> Node:
    program = compiled(directory.parent / "ceiling-program", [CEILING_SOURCE], [])
    return Ceiling(directory, program=program, properties=COMMON_PROPERTIES)


CONTENDERS: dict[str, Callable[[Path], Node]] = {
    "ruslo": new_ruslo,
    "kafka": new_apache_kafka,
    "ceiling": new_ceiling,
}


def seconds_to_first_answer(node: Node) -> float:
    """Launch a formatted node; the time from the start of its process to its first Metadata response."""
    node.format_if_new()
    start = time.monotonic()
    node.launch()
    wait_for_metadata("127.0.0.1", node.port, node.process, timeout_s=120, pause_s=0.002)
    return time.monotonic() - start


def build_load_program(folder: Path) -> Path:
    """Compile the load program unless the compiled one is newer."""
    return compiled(folder / "load", LOAD_SOURCES, [LOAD_HEADER], "-lrdkafka")


def compiled(program: Path, sources: list[Path], headers: list[Path], *libraries: str) -> Path:
    changed = max(source.stat().st_mtime for source in (*sources, *headers))
    if not program.exists() or program.stat().st_mtime < changed:
        program.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            ["gcc", "-O2", "-pthread", *map(str, sources), *libraries, "-o", str(program)], check=True
        )
    return program


def newest_librdkafka(program: Path) -> dict[str, str]:
    """The environment in which the load program uses the library that confluent-kafka brings.

    Debian's is some years old and spends several times the broker's own work on a small transaction.
    """
    bundled = Path(confluent_kafka.__file__).parent.with_name("confluent_kafka.libs")
    found = sorted(bundled.glob("librdkafka*.so*"))
    if not found:  # confluent-kafka was built here, against the library of the system
        return {}
    folder = program.with_name("librdkafka")
    folder.mkdir(exist_ok=True)
    link = folder / "librdkafka.so.1"
    link.unlink(missing_ok=True)
    link.symlink_to(found[-1])
    return {"LD_LIBRARY_PATH": str(folder)}


class Target(Protocol):
    """The target of a load: a node or a cluster."""

    @property
    def bootstrap(self) -> str: ...

    def log_tail(self, lines: int) -> str: ...


def run_load(
    program: Path,
    mode: str,
    target: Target,
    topic: str,
    records: int,
    size: int,
    environment: Mapping[str, str] | None = None,
    *,
    client: Mapping[str, str] | None = None,
    own_session: bool = True,
) -> dict[str, float]:
    """One run of the load program, with these settings of its client; its figures.

    In a session of its own it is like a client on another terminal: where the kernel shares processors out by
    session (sched_autogroup), a client's many threads else take them from a broker that has few.
    """
    command = [str(program), mode, target.bootstrap, topic, str(records), str(size)]
    command += [f"{key}={value}" for key, value in (client or {}).items()]
    environment = os.environ | dict(environment or {})
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=400, env=environment, start_new_session=own_session
    )
    if result.returncode != 0:
        raise RuntimeError(f"load {mode} failed: {result.stderr.strip()}\n{target.log_tail(10)}")
    figures = json.loads(result.stdout)
    return {key: float(value) for key, value in figures.items() if key != "mode"}
