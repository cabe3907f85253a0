"""``ruslo cluster topics-at-risk``: partitions that are offline or miss replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.options import bootstrap_option, examples, output_option
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import print_json, print_table
from ruslo.client.views.partition_health import RISK_LABELS

if TYPE_CHECKING:
    from ruslo.client.admin.admin import Admin
    from ruslo.client.views.partition_health import PartitionAtRisk

_EXIT_AT_RISK = 3


@click.command(
    "topics-at-risk",
    epilog=examples(
        "ruslo cluster topics-at-risk",
        "ruslo cluster topics-at-risk --level under-min-isr || ./page-operator",
        "ruslo cluster topics-at-risk -o json | jq .counts",
    ),
)
@bootstrap_option
@click.option(
    "--level",
    type=click.Choice(RISK_LABELS),
    default=RISK_LABELS[0],
    show_default=True,
    help="Lowest risk to list.",
)
@click.option("--topic", "topics", multiple=True, metavar="NAME", help="Only this topic. Repeatable.")
@output_option
def topics_at_risk(bootstrap: str, level: str, topics: tuple[str, ...], output: str) -> None:
    """List partitions that are under-replicated, reject writes, or have no leader.

    Exit code 0: no partition is at risk. 3: some are. 1: the request failed.
    """
    from ruslo.client.views.partition_health import Risk, count_risks, partitions_at_risk

    async def gather(admin: Admin) -> list[PartitionAtRisk]:
        known = [await admin.topics.describe(name) for name in topics] or await admin.topics.list()
        return await partitions_at_risk(admin, known)

    least = next(risk for risk in Risk if risk.label == level)
    found = [each for each in with_admin(bootstrap, gather) if each.risk >= least]
    if output == "json":
        print_json({"counts": count_risks(found), "partitions": [_as_json(each) for each in found]})
    elif not found:
        click.echo("No partition is at risk.")
    else:
        print_table(
            ["RISK", "TOPIC", "PARTITION", "LEADER", "REPLICAS", "ISR", "MISSING", "MIN ISR"],
            [
                (
                    each.risk.label,
                    *each.partition,
                    each.info.leader_id if each.info.leader_id >= 0 else None,
                    each.info.replicas,
                    each.info.isr,
                    each.missing,
                    each.min_isr,
                )
                for each in found
            ],
        )
    if found:
        raise click.exceptions.Exit(_EXIT_AT_RISK)


def _as_json(each: PartitionAtRisk) -> dict[str, object]:
    return {
        "topic": each.partition.topic,
        "partition": each.partition.partition,
        "risk": each.risk.label,
        "leader": each.info.leader_id if each.info.leader_id >= 0 else None,
        "replicas": list(each.info.replicas),
        "isr": list(each.info.isr),
        "missing": list(each.missing),
        "min_isr": each.min_isr,
    }
