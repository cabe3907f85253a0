"""``ruslo perf``: measure throughput and latency of a cluster."""

from __future__ import annotations

import click

from ruslo.cli.arguments.options import examples
from ruslo.cli.perf.consume import consume
from ruslo.cli.perf.latency import latency
from ruslo.cli.perf.produce import produce


@click.group(
    short_help="Measure throughput and latency.",
    epilog=examples("ruslo topic create load -p 6 && ruslo perf produce load --seconds 10"),
)
def perf() -> None:
    """Measure throughput and latency of a cluster.

    The default client is librdkafka called from Python, which reaches about 300,000 records per second. Use
    --client native to measure the broker: it sends and fetches whole batches.
    """


for command in (produce, consume, latency):
    perf.add_command(command)
