"""``ruslo cluster health``: a sentence and an exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.options import Amount, bootstrap_option, examples, output_option
from ruslo.cli.terminal.output import print_json
from ruslo.client.views.partition_health import RISK_LABELS

if TYPE_CHECKING:
    from ruslo.client.views.cluster_health import ClusterHealth
    from ruslo.client.views.partition_health import Risk

_POLL_INTERVAL_S = 0.5


@click.command(
    short_help="Report cluster health in a sentence and an exit code.",
    epilog=examples(
        "ruslo cluster health",
        "ruslo cluster health --wait 60 && ./deploy-next-broker",
        "ruslo cluster health --fail-on under-min-isr -o json",
    ),
)
@bootstrap_option
@click.option(
    "--fail-on",
    type=click.Choice(RISK_LABELS),
    default=RISK_LABELS[0],
    show_default=True,
    help="Lowest partition risk that makes the cluster unhealthy.",
)
@click.option(
    "--wait",
    "wait_s",
    type=Amount(0),
    default=0.0,
    metavar="SECONDS",
    help="Wait up to this long for the cluster to become healthy.",
)
@output_option
def health(bootstrap: str, fail_on: str, wait_s: float, output: str) -> None:
    """Report whether the cluster is healthy.

    A healthy cluster has an active controller, no fenced broker, no failed log directory, no lost records and
    no partition at risk (offline, under or at min.insync.replicas, under-replicated).

    Exit code 0: healthy. 1: unhealthy or unreachable. To probe a single node, use /health/live and
    /health/ready on its metrics listener.
    """
    import asyncio

    from ruslo.client.views.partition_health import Risk

    least = next(risk for risk in Risk if risk.label == fail_on)
    found = asyncio.run(_wait_until_healthy(bootstrap, least, wait_s))
    if output == "json":
        print_json({"healthy": found.healthy, **found._asdict()})
    else:
        click.echo(found.sentence)
    if not found.healthy:
        raise click.exceptions.Exit(1)


async def _wait_until_healthy(bootstrap: str, least: Risk, wait_s: float) -> ClusterHealth:
    """The last known health; raises the error of the last attempt if that failed."""
    import asyncio
    import time

    from ruslo.cli.arguments.client_settings import channel_settings
    from ruslo.client.admin.admin import Admin
    from ruslo.client.views.cluster_health import cluster_health
    from ruslo.model.errors import RusloError

    until_s = time.monotonic() + wait_s
    settings = channel_settings()
    while True:
        try:
            async with Admin(bootstrap, settings=settings) as admin:
                await admin.cluster.any_connection()
                found = await cluster_health(admin, least)
        except RusloError:
            if time.monotonic() >= until_s:
                raise
        else:
            if found.healthy or time.monotonic() >= until_s:
                return found
        await asyncio.sleep(_POLL_INTERVAL_S)
