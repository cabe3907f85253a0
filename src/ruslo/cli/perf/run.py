"""A run of ``ruslo perf``: its limits, its clients and its report."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import click

from ruslo.cli.arguments.options import Amount, F
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


def client_option(function: F) -> F:
    return click.option(
        "--client",
        type=click.Choice(["librdkafka", "native"]),
        default="librdkafka",
        show_default=True,
        help="librdkafka handles single records, the native client whole batches.",
    )(function)


def limit_options(function: F) -> F:
    function = click.option("--seconds", type=Amount(0.1), help="Stop after this time.")(function)
    return click.option("-n", "--records", type=click.IntRange(1), help="Stop after this many records.")(
        function
    )


def limits_or_default(records: int | None, seconds: float | None, *, default_records: int) -> Limits:
    return Limits(default_records if records is None and seconds is None else records, seconds)


def client_config(bootstrap: str) -> dict[str, ConfigValue]:
    return {"bootstrap.servers": bootstrap, "client.id": "ruslo-perf", "log_level": 2}


def refuse_librdkafka_settings() -> None:
    """Of the settings of the command line, the native client reads only those of the connection."""
    from ruslo.cli.arguments.client_settings import given_settings
    from ruslo.client.settings.channel_security import is_security_setting

    for name in given_settings():
        if not is_security_setting(name) and name != "bootstrap.servers":
            raise click.UsageError(f"{name} needs the librdkafka client. Remove it or --client native.")


def require_partition(bootstrap: str, topic: str, partition: int = 0) -> None:
    """Fail for a missing topic, so that a typing error does not create one."""
    from ruslo.cli.running import with_admin

    found = with_admin(bootstrap, lambda admin: admin.topics.describe(topic))
    if found.partition(partition) is None:
        last = len(found.partitions) - 1
        raise click.ClickException(
            f"Topic {topic!r} has no partition {partition}. Use a partition from 0 to {last}."
        )


def report(measured: Measured, output: str) -> None:
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
