"""``ruslo perf consume``: measure how fast a topic is read."""

from __future__ import annotations

import click

from ruslo.cli.arguments.completion import complete_topics
from ruslo.cli.arguments.options import bootstrap_option, examples, output_option
from ruslo.cli.perf.run import (
    Limits,
    client_config,
    client_option,
    limit_options,
    refuse_librdkafka_settings,
    report,
    require_partition,
)


@click.command(
    epilog=examples("ruslo perf consume load", "ruslo perf consume load -n 100000 --client native")
)
@click.argument("topic", shell_complete=complete_topics)
@bootstrap_option
@limit_options
@client_option
@output_option
def consume(
    topic: str,
    bootstrap: str,
    records: int | None,
    seconds: float | None,
    client: str,
    output: str,
) -> None:
    """Read TOPIC from its start to its current end; measure throughput."""
    limits = Limits(records, seconds)
    require_partition(bootstrap, topic)
    if client == "native":
        refuse_librdkafka_settings()
        import asyncio

        from ruslo.cli.perf.raw_load import raw_consume_load

        measured = asyncio.run(raw_consume_load(bootstrap, topic, limits))
    else:
        from ruslo.cli.arguments.client_settings import client_settings
        from ruslo.cli.perf.load import consume_load
        from ruslo.client.settings.tables import for_consumers

        config = {
            **client_config(bootstrap),
            "enable.partition.eof": True,
            "max.poll.records": 5000,
            **for_consumers(client_settings()),
        }
        measured = consume_load(config, topic, limits)
    report(measured, output)
