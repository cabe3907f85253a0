"""``ruslo cluster reassign cancel``: stop moves."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

import click

from ruslo.cli.arguments.options import bootstrap_option, examples, output_option
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import print_json

if TYPE_CHECKING:
    from ruslo.client.admin.admin import Admin
    from ruslo.model.errors import KafkaError
    from ruslo.model.topics import TopicPartition


@click.command(
    epilog=examples("ruslo cluster reassign cancel plan.json", "ruslo cluster reassign cancel --all")
)
@click.argument("file", type=click.File("r", encoding="utf-8"), metavar="[PLAN]", required=False)
@bootstrap_option
@click.option("--all", "everything", is_flag=True, help="Cancel all ongoing moves.")
@output_option
def cancel(file: TextIO | None, bootstrap: str, everything: bool, output: str) -> None:
    """Cancel ongoing moves: partitions return to their old replicas. Throttles are removed."""
    from ruslo.cli.cluster.reassign.plan_file import read_plan
    from ruslo.cli.cluster.reassign.throttle import clear_throttle
    from ruslo.cli.terminal.errors import fail_for

    if (file is None) != everything:
        raise click.UsageError("Choose what to cancel: use either a PLAN or --all.")
    plan = None if file is None else read_plan(file).replicas

    async def run(admin: Admin) -> dict[TopicPartition, KafkaError | None]:
        ongoing = await admin.reassignments.ongoing(None if plan is None else list(plan))
        results = await admin.reassignments.alter(dict.fromkeys(ongoing)) if ongoing else {}
        await clear_throttle(admin, {partition.topic for partition in plan or ongoing})
        return results

    results = with_admin(bootstrap, run)
    if output == "json":
        print_json(
            [
                {"topic": topic, "partition": number, "error": None if error is None else error.code.name}
                for (topic, number), error in results.items()
            ]
        )
    elif not results:
        click.echo("No reassignment is in progress.")
    else:
        for partition, error in results.items():
            if error is None:
                click.echo(f"cancelled {partition}")
    fail_for({partition: error for partition, error in results.items() if error is not None})
