"""``ruslo client-metrics``: the subscriptions by which clients push their metrics (KIP-714)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.options import bootstrap_option, confirm, examples, output_option, yes_option
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import print_json, print_table

if TYPE_CHECKING:
    from ruslo.client.admin.admin import Admin

METRICS, INTERVAL, MATCH = "metrics", "interval.ms", "match"
Subscription = dict[str, str | None]


@click.group(
    short_help="Show and change which metrics clients push.",
    epilog=examples(
        "ruslo client-metrics set latency --metrics org.apache.kafka.producer. --interval-ms 60000",
        "ruslo client-metrics list",
    ),
)
def client_metrics() -> None:
    """Show and change the subscriptions by which clients push their metrics to the brokers (KIP-714)."""


@client_metrics.command(
    "list", epilog=examples("ruslo client-metrics list", "ruslo client-metrics list -o json")
)
@bootstrap_option
@output_option
def list_subscriptions(bootstrap: str, output: str) -> None:
    """List all subscriptions."""

    async def load(admin: Admin) -> dict[str, Subscription]:
        return {name: await _load(admin, name) for name in await admin.configs.client_metrics_names()}

    _print(with_admin(bootstrap, load), output)


@client_metrics.command(epilog=examples("ruslo client-metrics describe latency"))
@click.argument("name")
@bootstrap_option
@output_option
def describe(name: str, bootstrap: str, output: str) -> None:
    """Show a subscription. Exit code 1: it does not exist."""
    _print({name: with_admin(bootstrap, lambda admin: _load_existing(admin, name))}, output)


@client_metrics.command(
    "set",
    epilog=examples(
        "ruslo client-metrics set all --metrics '*' --interval-ms 30000",
        "ruslo client-metrics set latency --metrics org.apache.kafka.producer. --match client_id=orders-.*",
        "ruslo client-metrics set latency --match client_software_name=librdkafka",
    ),
)
@click.argument("name")
@click.option(
    "--metrics",
    metavar="PREFIX",
    multiple=True,
    help="Push the metrics whose names start with this; * means all. Repeatable.",
)
@click.option(
    "--interval-ms",
    type=int,
    metavar="MS",
    help="Interval of the pushes, from 100 to 3600000 (default: 300000).",
)
@click.option(
    "--match",
    metavar="ATTRIBUTE=REGEX",
    multiple=True,
    help="Apply only to clients whose attribute, such as client_id, matches as a whole. Repeatable.",
)
@bootstrap_option
@output_option
def set_subscription(
    name: str,
    metrics: tuple[str, ...],
    interval_ms: int | None,
    match: tuple[str, ...],
    bootstrap: str,
    output: str,
) -> None:
    """Create or change a subscription; options that are left out keep their values."""
    from ruslo.client.admin.configs import Change, Operation, Resource

    values: dict[str, str] = {}
    if metrics:
        values[METRICS] = ",".join(metrics)
    if interval_ms is not None:
        values[INTERVAL] = str(interval_ms)
    if match:
        values[MATCH] = ",".join(match)
    if not values:
        raise click.UsageError(
            "Nothing to set. Add --metrics PREFIX, --interval-ms MS or --match ATTRIBUTE=REGEX."
        )
    changes = {key: Change(Operation.SET, value) for key, value in values.items()}
    with_admin(bootstrap, lambda admin: admin.configs.alter(Resource.client_metrics(name), changes))
    if output == "json":
        print_json({"name": name, "set": values})
    else:
        for key, value in values.items():
            click.echo(f"set {key} of {name} to {value}")


@client_metrics.command(epilog=examples("ruslo client-metrics delete latency --yes"))
@click.argument("name")
@bootstrap_option
@yes_option
@output_option
def delete(name: str, bootstrap: str, yes: bool, output: str) -> None:
    """Delete a subscription: its clients stop pushing its metrics."""
    from ruslo.client.admin.configs import Change, Operation, Resource

    with_admin(bootstrap, lambda admin: _load_existing(admin, name))
    confirm(f"Delete the client metrics subscription {name}?", yes)
    # A subscription exists while it has a config.
    changes = {key: Change(Operation.DELETE) for key in (METRICS, INTERVAL, MATCH)}
    with_admin(bootstrap, lambda admin: admin.configs.alter(Resource.client_metrics(name), changes))
    if output == "json":
        print_json({"deleted": name})
    else:
        click.echo(f"deleted {name}")


async def _load_existing(admin: Admin, name: str) -> Subscription:
    if name not in await admin.configs.client_metrics_names():
        raise click.ClickException(
            f"The client metrics subscription {name} does not exist. "
            "Run 'ruslo client-metrics list' to see all."
        )
    return await _load(admin, name)


async def _load(admin: Admin, name: str) -> Subscription:
    from ruslo.client.admin.configs import Resource

    entries = await admin.configs.describe(Resource.client_metrics(name))
    return {each.name: each.value for each in entries}


def _print(subscriptions: dict[str, Subscription], output: str) -> None:
    if output == "json":
        print_json([{"name": name, **configs} for name, configs in subscriptions.items()])
    elif subscriptions:
        print_table(
            ["NAME", "METRICS", "INTERVAL MS", "MATCH"],
            [
                (name, configs.get(METRICS) or "-", configs.get(INTERVAL) or "-", configs.get(MATCH) or "-")
                for name, configs in subscriptions.items()
            ],
        )
    else:
        click.echo("no client metrics subscriptions", err=True)
