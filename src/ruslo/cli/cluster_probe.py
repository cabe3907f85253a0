"""``ruslo cluster health``: one sentence for people, one exit code for probes and scripts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import click

from ruslo.cli.options import bootstrap_option, examples, output_option
from ruslo.cli.output import print_json

if TYPE_CHECKING:
    from ruslo.cli.partition_health import Risk
    from ruslo.client.admin import Admin

_LEVELS = ("under-replicated", "at-min-isr", "under-min-isr", "offline")
_LOOK_EVERY_S = 0.5


class Health(NamedTuple):
    problems: list[str]
    """In words, the worst first; none: the cluster is healthy."""
    controller: int | None
    brokers: int
    fenced_brokers: list[int]
    partitions: int
    at_risk: dict[str, int]
    failed_log_directories: int

    @property
    def healthy(self) -> bool:
        return not self.problems

    @property
    def sentence(self) -> str:
        if self.problems:
            return f"Not healthy: {'; '.join(self.problems)}."
        return (
            f"Healthy: {_counted(self.brokers, 'broker')}, {_counted(self.partitions, 'partition')}, "
            f"controller {self.controller}."
        )


@click.command(
    short_help="Whether the cluster is well, as a sentence and an exit code.",
    epilog=examples(
        "ruslo cluster health",
        "ruslo cluster health --wait 60 && ./deploy-next-broker",
        "ruslo cluster health --fail-on under-min-isr -o json",
    ),
)
@bootstrap_option
@click.option(
    "--fail-on",
    type=click.Choice(_LEVELS),
    default=_LEVELS[0],
    show_default=True,
    help="Partitions that are as bad as this, or worse, make the cluster unhealthy.",
)
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(0),
    default=0.0,
    metavar="SECONDS",
    help="Ask again for so long, until the cluster is healthy.",
)
@output_option
def health(bootstrap: str, fail_on: str, wait_s: float, output: str) -> None:
    """Say whether the cluster is well.

    It is when it has an active controller, no registered broker is fenced, no log directory has failed and
    no partition is at risk: offline, short of min.insync.replicas, about to be, or under-replicated.

    Exit code 0: healthy. 1: not, or nobody answered. For a single node there are /health/live and
    /health/ready on its metrics listener.
    """
    import asyncio

    from ruslo.cli.partition_health import Risk

    least = next(risk for risk in Risk if risk.label == fail_on)
    found = asyncio.run(_wait_until_healthy(bootstrap, least, wait_s))
    if output == "json":
        print_json({"healthy": found.healthy, **found._asdict()})
    else:
        click.echo(found.sentence)
    if not found.healthy:
        raise click.exceptions.Exit(1)


async def _wait_until_healthy(bootstrap: str, least: Risk, wait_s: float) -> Health:
    """The last state seen; raises what the last attempt to ask failed with."""
    import asyncio
    import time

    from ruslo.client.admin import Admin
    from ruslo.model.errors import RusloError

    until_s = time.monotonic() + wait_s
    while True:
        try:
            async with Admin(bootstrap) as admin:
                found = await look(admin, least)
        except RusloError:
            if time.monotonic() >= until_s:
                raise
        else:
            if found.healthy or time.monotonic() >= until_s:
                return found
        await asyncio.sleep(_LOOK_EVERY_S)


async def look(admin: Admin, least: Risk) -> Health:
    """``least``: the risk of a partition from which on the cluster does not count as healthy."""
    from ruslo.cli.partition_health import count_risks, partitions_at_risk

    description = await admin.brokers.describe_cluster()
    leader_id = (await admin.brokers.describe_quorum()).leader_id
    topics = await admin.topics.list()
    at_risk = await partitions_at_risk(admin, topics)
    failed_directories = 0
    for node, fenced in description.brokers:
        if not fenced:
            directories = await admin.brokers.log_dirs(node.id)
            failed_directories += sum(each.error is not None for each in directories)
    fenced_brokers = [node.id for node, fenced in description.brokers if fenced]
    return Health(
        problems=list(
            _problems(
                leader_id,
                count_risks(each for each in at_risk if each.risk >= least),
                fenced_brokers,
                failed_directories,
            )
        ),
        controller=leader_id if leader_id >= 0 else None,
        brokers=len(description.brokers),
        fenced_brokers=fenced_brokers,
        partitions=sum(len(topic.partitions) for topic in topics),
        at_risk=count_risks(at_risk),
        failed_log_directories=failed_directories,
    )


def _problems(
    leader_id: int, at_risk: dict[str, int], fenced_brokers: list[int], failed_directories: int
) -> Iterator[str]:
    if leader_id < 0:
        yield "there is no active controller"
    for label, count in at_risk.items():
        if count:
            yield f"{_counted(count, 'partition')} {label}"
    if failed_directories:
        yield f"{_counted(failed_directories, 'log directory', 'log directories')} failed"
    if fenced_brokers:
        yield f"fenced: broker {', '.join(map(str, fenced_brokers))}"


def _counted(count: int, noun: str, plural: str | None = None) -> str:
    return f"{count} {noun if count == 1 else plural or noun + 's'}"
