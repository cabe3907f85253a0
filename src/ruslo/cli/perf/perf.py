"""``ruslo perf``: measure throughput and latency of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import click

from ruslo.cli.arguments.completion import complete_topics
from ruslo.cli.arguments.options import (
    Amount,
    F,
    acks_option,
    bootstrap_option,
    compression_option,
    examples,
    output_option,
    property_option,
)
from ruslo.cli.terminal.output import print_fields, print_json

if TYPE_CHECKING:
    from ruslo.cli.perf.load import Measured
    from ruslo.client.settings.setting import ConfigValue


class Limits(NamedTuple):
    """When to stop: after a number of records or seconds, whichever comes first."""

    records: int | None
    seconds: float | None

    def share(self, records: int, seconds: float) -> float | None:
        """The completed share of the run; None without limits."""
        by_count = None if self.records is None else records / self.records
        by_time = None if self.seconds is None else seconds / self.seconds
        known = [share for share in (by_count, by_time) if share is not None]
        return max(known, default=None)

    def reached(self, records: int, seconds: float) -> bool:
        return (self.records is not None and records >= self.records) or (
            self.seconds is not None and seconds >= self.seconds
        )


@click.group(
    short_help="Measure throughput and latency.",
    epilog=examples("ruslo topic create load -p 6 && ruslo perf produce load --seconds 10"),
)
def perf() -> None:
    """Measure throughput and latency of a cluster.

    The default client is librdkafka called from Python, which reaches about 300,000 records per second. Use
    --client native to measure the broker: it sends and fetches whole batches.
    """


def _client_option(function: F) -> F:
    return click.option(
        "--client",
        type=click.Choice(["librdkafka", "native"]),
        default="librdkafka",
        show_default=True,
        help="librdkafka handles single records, the native client whole batches.",
    )(function)


def _limit_options(function: F) -> F:
    function = click.option("--seconds", type=Amount(0.1), help="Stop after this time.")(function)
    return click.option("-n", "--records", type=click.IntRange(1), help="Stop after this many records.")(
        function
    )


@perf.command(
    epilog=examples(
        "ruslo perf produce load -n 1000000 --size 1024",
        "ruslo perf produce load --seconds 30 --rate 5000 -z lz4",
        "ruslo perf produce load --seconds 10 --client native -o json",
    )
)
@click.argument("topic", shell_complete=complete_topics)
@bootstrap_option
@_limit_options
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
@_client_option
@property_option
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
    properties: dict[str, str],
    output: str,
) -> None:
    """Produce records of the same size to TOPIC; measure throughput and acknowledgement latency."""
    limits = _limits(records, seconds, default_records=100_000)
    _check(bootstrap, topic)
    if client == "native":
        if rate is not None or properties:
            raise click.UsageError("--rate and -X need the librdkafka client. Remove --client native.")
        import asyncio

        from ruslo.cli.perf.raw_load import raw_produce_load

        acks_number = {"all": -1, "1": 1, "0": 0}[acks]
        measured = asyncio.run(
            raw_produce_load(bootstrap, topic, size, batch_bytes, compression, acks_number, limits)
        )
    else:
        from ruslo.cli.arguments.profiles import client_settings
        from ruslo.cli.perf.load import produce_load
        from ruslo.client.settings.tables import for_producers

        config: dict[str, ConfigValue] = {
            **_common(bootstrap),
            "acks": acks,
            "compression.type": compression,
            "batch.size": batch_bytes,
            **for_producers(client_settings()),
            **properties,
        }
        measured = produce_load(config, topic, size, rate, limits)
    _report(measured, output)


@perf.command(epilog=examples("ruslo perf consume load", "ruslo perf consume load -n 100000 --client native"))
@click.argument("topic", shell_complete=complete_topics)
@bootstrap_option
@_limit_options
@_client_option
@property_option
@output_option
def consume(
    topic: str,
    bootstrap: str,
    records: int | None,
    seconds: float | None,
    client: str,
    properties: dict[str, str],
    output: str,
) -> None:
    """Read TOPIC from its start to its current end; measure throughput."""
    limits = Limits(records, seconds)
    _check(bootstrap, topic)
    if client == "native":
        if properties:
            raise click.UsageError("-X needs the librdkafka client. Remove --client native.")
        import asyncio

        from ruslo.cli.perf.raw_load import raw_consume_load

        measured = asyncio.run(raw_consume_load(bootstrap, topic, limits))
    else:
        from ruslo.cli.arguments.profiles import client_settings
        from ruslo.cli.perf.load import consume_load
        from ruslo.client.settings.tables import for_consumers

        config = {
            **_common(bootstrap),
            "enable.partition.eof": True,
            "max.poll.records": 5000,
            **for_consumers(client_settings()),
            **properties,
        }
        measured = consume_load(config, topic, limits)
    _report(measured, output)


@perf.command(
    epilog=examples("ruslo perf latency load", "ruslo perf latency load -n 5000 --size 100 -o json")
)
@click.argument("topic", shell_complete=complete_topics)
@bootstrap_option
@_limit_options
@click.option(
    "--size", type=click.IntRange(1), default=100, show_default=True, help="Size of each value in bytes."
)
@click.option(
    "-p", "--partition", type=click.IntRange(0), default=0, show_default=True, help="Partition to use."
)
@acks_option("1", "all")
@property_option
@output_option
def latency(
    topic: str,
    bootstrap: str,
    records: int | None,
    seconds: float | None,
    size: int,
    partition: int,
    acks: str,
    properties: dict[str, str],
    output: str,
) -> None:
    """Send one record at a time; measure acknowledgement latency and end-to-end latency."""
    from ruslo.cli.arguments.profiles import client_settings
    from ruslo.cli.perf.load import latency_load
    from ruslo.client.settings.tables import for_consumers, for_producers
    from ruslo.model.topics import TopicPartition

    limits = _limits(records, seconds, default_records=1000)
    _check(bootstrap, topic, partition)
    common = _common(bootstrap)
    chosen = {**client_settings(), **properties}
    measured = latency_load(
        {**common, "acks": acks, "linger.ms": 0, **for_producers(chosen)},
        {**common, "fetch.min.bytes": 1, **for_consumers(chosen)},
        TopicPartition(topic, partition),
        size,
        limits,
    )
    _report(measured, output)


def _limits(records: int | None, seconds: float | None, *, default_records: int) -> Limits:
    return Limits(default_records if records is None and seconds is None else records, seconds)


def _common(bootstrap: str) -> dict[str, ConfigValue]:
    return {"bootstrap.servers": bootstrap, "client.id": "ruslo-perf", "log_level": 2}


def _check(bootstrap: str, topic: str, partition: int = 0) -> None:
    """Fail for a missing topic, so that a typing error does not create one."""
    from ruslo.cli.running import with_admin

    found = with_admin(bootstrap, lambda admin: admin.topics.describe(topic))
    if found.partition(partition) is None:
        last = len(found.partitions) - 1
        raise click.ClickException(
            f"Topic {topic!r} has no partition {partition}. Use a partition from 0 to {last}."
        )


def _report(measured: Measured, output: str) -> None:
    if output == "json":
        print_json(
            {
                "records": measured.records,
                "bytes": measured.size_bytes,
                "seconds": round(measured.seconds, 3),
                "records_per_s": round(measured.records_per_s, 1),
                "mb_per_s": round(measured.mb_per_s, 3),
                "failed": measured.failed,
                **{name: latencies.as_json() for name, latencies in measured.latencies.items()},
            }
        )
    else:
        print_fields(
            [
                ("Records", f"{measured.records:,} in {measured.seconds:.2f} s"),
                ("Rate", f"{measured.records_per_s:,.0f} records/s, {measured.mb_per_s:,.2f} MB/s"),
                *(
                    (name.removesuffix("_ms").replace("_", " ").capitalize(), latencies.as_text())
                    for name, latencies in measured.latencies.items()
                ),
            ]
        )
    if measured.first_error is not None:
        from ruslo.cli.terminal.errors import explain

        reason = explain(measured.first_error)
        raise click.ClickException(f"{measured.failed} records failed; the first error: {reason}")
