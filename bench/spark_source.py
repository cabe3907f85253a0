"""`make bench-spark`: topics through Spark, read by Spark's own Kafka connector and by ours, and written.

One Spark session, two threads (`local[2]`), one broker on the same machine. Contenders take turns, so that
whatever else the machine does hits all of them; the best of their rounds counts.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bench.contenders import build_load_program, new_ruslo, run_load
from bench.measure import MB
from bench.setting import create_topics
from bench.spark_sink import (
    OVERHEAD_HEADING,
    SINK_HEADING,
    SinkLoad,
    measure_overhead,
    measure_sink,
    overhead_section,
    overhead_table,
    sink_section,
    sink_table,
)
from ruslo.pipeline.session import new_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "build" / "bench"
RESULTS_FILE = OUTPUT / "spark-source.json"
# Of the versions that Maven Central has for this Scala, 4.0.0 is the one whose dependencies resolve.
CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0"
PARTITIONS = 6
DOCS_PAGE = ROOT / "docs" / "benchmarks-spark.md"
TITLE = "# Benchmarks of the pipeline\n"
HEADING = "## Reading topics"
SECTION = """Spark's own Kafka connector (4.0.0 for Scala 2.13) and `format("ruslo")` in one Spark session on
two threads (`local[2]`), reading the same topic of 6 partitions from one Ruslo broker on the same machine.
`ratio` is the speed over the connector's.

{table}

The query is `count(*)` and `sum(length(value))`, from its planning to its result, so that a task's start
counts too. Contenders take turns; the first turn is left out and the best of the others counts. A direct scan
reads the broker's segments from the page cache. Without `columns` both build all seven columns of the
connector. `spark.buffer.size` is 1 MB for all. Made by `make bench-spark ARGS=--write-docs`; {machine}."""

SINK, OVERHEAD = "sink", "overhead"
SINK_LOAD = SinkLoad("spark-sink-in", "spark-sink-out", 300_000, 1000)
OVERHEAD_TOPICS = ("spark-overhead-in", "spark-overhead-out")
OVERHEAD_SAMPLES = 40

Results = dict[str, dict[str, float]]
"""Seconds, by part and contender (or sample)."""


class Load(NamedTuple):
    topic: str
    records: int
    size_bytes: int


LOADS = {
    "1k": Load("spark-1k", 1_000_000, 1000),
    "100b": Load("spark-100b", 6_000_000, 100),
}


class Contender(NamedTuple):
    title: str
    format: str
    options: dict[str, str]
    wanted_ratio: float | None


CONTENDERS = {
    "connector": Contender("Spark's connector", "kafka", {}, None),
    "wire": Contender("Ruslo", "ruslo", {}, 2.0),
    "direct": Contender("Ruslo, scan=direct", "ruslo", {"scan": "direct"}, 3.0),
    "wire-columns": Contender("Ruslo, columns=value", "ruslo", {"columns": "value"}, None),
    "direct-columns": Contender(
        "Ruslo, scan=direct, columns=value", "ruslo", {"scan": "direct", "columns": "value"}, None
    ),
}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="make bench-spark ARGS=", description=__doc__)
    parts = (*LOADS, SINK, OVERHEAD)
    parser.add_argument("--only", action="append", choices=parts, help="a part to run; repeatable")
    parser.add_argument("--contender", action="append", choices=CONTENDERS, help="repeatable (all)")
    parser.add_argument("--rounds", type=int, default=4, help="turns of each contender after a first one")
    parser.add_argument("--divisor", type=int, default=1, help="so many times fewer records")
    parser.add_argument("--write-docs", action="store_true", help="write the figures into the docs")
    options = parser.parse_args(arguments)
    contenders = options.contender or list(CONTENDERS)
    wanted = options.only or list(parts)
    loads = {
        name: load._replace(records=load.records // options.divisor)
        for name, load in LOADS.items()
        if name in wanted
    }
    copied = SINK_LOAD._replace(records=SINK_LOAD.records // options.divisor)
    load_average = os.getloadavg()[0]
    program = build_load_program(OUTPUT)
    folder = OUTPUT / "spark-data"
    shutil.rmtree(folder, ignore_errors=True)
    node = new_ruslo(folder)
    spark = _session(bool(loads) and "connector" in contenders)
    results: Results = {}
    sections: dict[str, str] = {}
    try:
        node.start()
        for name, load in loads.items():
            create_topics(node, {load.topic: PARTITIONS})
            run_load(program, "produce", node, load.topic, load.records, load.size_bytes)
            results[name] = _measure(spark, node.bootstrap, contenders, load, options.rounds)
        if results:
            print(table(results, loads))
            text = SECTION.format(table=table(results, loads), machine=_machine(load_average))
            sections[HEADING] = text
        if SINK in wanted:
            create_topics(node, {copied.source: PARTITIONS, copied.target: PARTITIONS})
            run_load(program, "produce", node, copied.source, copied.records, copied.size_bytes)
            results[SINK] = measure_sink(spark, node.bootstrap, copied, options.rounds)
            print(sink_table(results[SINK], copied))
            sections[SINK_HEADING] = sink_section(results[SINK], copied)
        if OVERHEAD in wanted:
            create_topics(node, dict.fromkeys(OVERHEAD_TOPICS, 1))
            waits = measure_overhead(spark, node.bootstrap, *OVERHEAD_TOPICS, OVERHEAD_SAMPLES)
            results[OVERHEAD] = {str(number): seconds for number, seconds in enumerate(waits)}
            print(overhead_table(waits))
            sections[OVERHEAD_HEADING] = overhead_section(waits)
    finally:
        spark.stop()
        node.kill()
        shutil.rmtree(folder, ignore_errors=True)
    RESULTS_FILE.write_text(json.dumps(results, indent=1))
    if options.write_docs:
        for heading, text in sections.items():
            write_section(DOCS_PAGE, heading, text)
    return 0


def _session(with_connector: bool) -> SparkSession:
    config = {
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
    if with_connector:
        config["spark.jars.packages"] = CONNECTOR
    return new_session("bench", "local[2]", config)


def _measure(
    spark: SparkSession, bootstrap: str, contenders: list[str], load: Load, rounds: int
) -> dict[str, float]:
    best: dict[str, float] = {}
    for turn in range(rounds + 1):
        for name in contenders:
            seconds = _read(spark, bootstrap, CONTENDERS[name], load)
            print(f"{load.topic} {name}: {seconds:.2f} s", file=sys.stderr, flush=True)
            if turn:  # the first turn loads classes and compiled code
                best[name] = min(seconds, best.get(name, seconds))
    return best


def _read(spark: SparkSession, bootstrap: str, contender: Contender, load: Load) -> float:
    reader = spark.read.format(contender.format).option("kafka.bootstrap.servers", bootstrap)
    frame = reader.option("subscribe", load.topic).options(**contender.options).load()
    start = time.monotonic()
    (row,) = frame.selectExpr("count(*)", "sum(length(value))").collect()
    seconds = time.monotonic() - start
    if tuple(row) != (load.records, load.records * load.size_bytes):
        raise RuntimeError(f"{contender.title} read {tuple(row)} of {load}")
    return seconds


def table(results: Results, loads: dict[str, Load]) -> str:
    lines = ["| reader | record | MB/s | M records/s | ratio | wanted |  |", "| --- " * 7 + "|"]
    for name, seconds_by_contender in results.items():
        load = loads[name]
        base = seconds_by_contender.get("connector")
        for key, seconds in seconds_by_contender.items():
            contender = CONTENDERS[key]
            ratio = None if base is None else base / seconds
            wanted = contender.wanted_ratio
            reached = "" if wanted is None or ratio is None else "yes" if ratio >= wanted else "no"
            cells = [
                contender.title,
                f"{load.size_bytes:,} B",
                f"{load.records * load.size_bytes / seconds / MB:,.0f}",
                f"{load.records / seconds / 1e6:.2f}",
                "–" if ratio is None else f"{ratio:.2f}×",
                "–" if wanted is None else f"≥ {wanted:g}×",
                reached,
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _machine(load_average: float) -> str:
    return f"{os.cpu_count()} processors, a load average of {load_average:.1f} when it began"


def write_section(page: Path, heading: str, text: str) -> None:
    """Replace what stands under a heading, up to the next one of its kind; other sections stay."""
    whole = page.read_text() if page.exists() else TITLE
    before, found, rest = whole.partition(f"{heading}\n")
    after = rest.partition("\n## ")[2] if found else ""
    page.write_text(
        f"{before.rstrip()}\n\n{heading}\n\n{text.strip()}\n" + (f"\n## {after}" if after else "")
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
