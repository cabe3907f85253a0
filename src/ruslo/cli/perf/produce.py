"""``ruslo perf produce``: measure how fast a cluster accepts records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.completion import complete_topics
from ruslo.cli.arguments.options import (
    Amount,
    acks_option,
    bootstrap_option,
    compression_option,
    examples,
    output_option,
)
from ruslo.cli.perf.run import (
    client_config,
    client_option,
    limit_options,
    limits_or_default,
    refuse_librdkafka_settings,
    report,
    require_partition,
)

if TYPE_CHECKING:
    from ruslo.client.settings.setting import ConfigValue


@click.command(
    epilog=examples(
        "ruslo perf produce load -n 1000000 --size 1024",
        "ruslo perf produce load --seconds 30 --rate 5000 -z lz4",
        "ruslo perf produce load --seconds 10 --client native -o json",
    )
)
@click.argument("topic", shell_complete=complete_topics)
@bootstrap_option
@limit_options
@click.option(
    "--size", type=click.IntRange(1), default=1024, show_default=True, help="Size of each value in bytes."
)
@click.option("--rate", type=Amount(0.1), help="Records per second (default: as many as possible).")
@compression_option
@acks_option("0", "1", "all")
@click.option(
    "--batch-bytes",
    type=click.IntRange(1),
    default=65536,
    show_default=True,
    help="Size of a batch in bytes.",
)
@client_option
@output_option
def produce(
    topic: str,
    bootstrap: str,
    records: int | None,
    seconds: float | None,
    size: int,
    rate: float | None,
    compression: str,
    acks: str,
    batch_bytes: int,
    client: str,
    output: str,
) -> None:
    """Produce records of the same size to TOPIC; measure throughput and acknowledgement latency."""
    limits = limits_or_default(records, seconds, default_records=100_000)
    require_partition(bootstrap, topic)
    if client == "native":
        if rate is not None:
            raise click.UsageError("--rate needs the librdkafka client. Remove --client native.")
        refuse_librdkafka_settings()
        import asyncio

        from ruslo.cli.perf.raw_load import raw_produce_load

        acks_number = {"all": -1, "1": 1, "0": 0}[acks]
        measured = asyncio.run(
            raw_produce_load(bootstrap, topic, size, batch_bytes, compression, acks_number, limits)
        )
    else:
        from ruslo.cli.arguments.client_settings import client_settings
        from ruslo.cli.perf.load import produce_load
        from ruslo.client.settings.tables import for_producers

        config: dict[str, ConfigValue] = {
            **client_config(bootstrap),
            "acks": acks,
            "compression.type": compression,
            "batch.size": batch_bytes,
            **for_producers(client_settings()),
        }
        measured = produce_load(config, topic, size, rate, limits)
    report(measured, output)
