"""``ruslo perf latency``: measure how long single records take."""

from __future__ import annotations

import click

from ruslo.cli.arguments.completion import complete_topics
from ruslo.cli.arguments.options import (
    acks_option,
    bootstrap_option,
    examples,
    output_option,
)
from ruslo.cli.perf.run import client_config, limit_options, limits_or_default, report, require_partition


@click.command(
    epilog=examples("ruslo perf latency load", "ruslo perf latency load -n 5000 --size 100 -o json")
)
@click.argument("topic", shell_complete=complete_topics)
@bootstrap_option
@limit_options
@click.option(
    "--size", type=click.IntRange(1), default=100, show_default=True, help="Size of each value in bytes."
)
@click.option(
    "-p", "--partition", type=click.IntRange(0), default=0, show_default=True, help="Partition to use."
)
@acks_option("1", "all")
@output_option
def latency(
    topic: str,
    bootstrap: str,
    records: int | None,
    seconds: float | None,
    size: int,
    partition: int,
    acks: str,
    output: str,
) -> None:
    """Send one record at a time; measure acknowledgement latency and end-to-end latency."""
    from ruslo.cli.arguments.client_settings import client_settings
    from ruslo.cli.perf.load import latency_load
    from ruslo.client.settings.tables import for_consumers, for_producers
    from ruslo.model.topics import TopicPartition

    limits = limits_or_default(records, seconds, default_records=1000)
    require_partition(bootstrap, topic, partition)
    common = client_config(bootstrap)
    chosen = client_settings()
    measured = latency_load(
        {**common, "acks": acks, "linger.ms": 0, **for_producers(chosen)},
        {**common, "fetch.min.bytes": 1, **for_consumers(chosen)},
        TopicPartition(topic, partition),
        size,
        limits,
    )
    report(measured, output)
