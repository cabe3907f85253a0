"""``ruslo cluster reassign status``: the progress of moves."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

import click

from ruslo.cli.arguments.options import bootstrap_option, examples, output_option
from ruslo.cli.running import with_admin

if TYPE_CHECKING:
    from ruslo.cli.cluster.reassign.progress import MoveStatus
    from ruslo.client.admin.admin import Admin


@click.command(
    epilog=examples(
        "ruslo cluster reassign status",
        "ruslo cluster reassign status plan.json",
        "ruslo cluster reassign status plan.json --wait -o json",
    )
)
@click.argument("file", type=click.File("r", encoding="utf-8"), metavar="[PLAN]", required=False)
@bootstrap_option
@click.option("--wait", is_flag=True, help="Wait until all moves of the plan are complete.")
@click.option(
    "--preserve-throttle", is_flag=True, help="Do not remove the throttle when all moves are complete."
)
@output_option
def status(file: TextIO | None, bootstrap: str, wait: bool, preserve_throttle: bool, output: str) -> None:
    """Show all ongoing moves, or the progress of a plan.

    When all moves of the plan are complete, its throttle is removed. Exit code 1: a partition has other
    replicas than the plan and is not being moved.
    """
    from ruslo.cli.cluster.reassign.plan_file import read_plan
    from ruslo.cli.cluster.reassign.progress import MoveState, current_progress, print_moves, wait_until_done
    from ruslo.cli.cluster.reassign.throttle import clear_throttle
    from ruslo.cli.terminal.progress import Progress

    plan = None if file is None else read_plan(file)
    if wait and plan is None:
        raise click.UsageError("--wait needs a PLAN.")

    async def run(admin: Admin) -> tuple[list[MoveStatus], bool]:
        if wait and plan is not None:
            progress = Progress()
            statuses = await wait_until_done(admin, plan, progress)
            progress.clear()
        else:
            statuses = await current_progress(admin, plan)
        finished = plan is not None and all(each.state is MoveState.DONE for each in statuses)
        if plan is None or not finished or preserve_throttle:
            return statuses, False
        return statuses, await clear_throttle(admin, {partition.topic for partition in plan.replicas})

    statuses, cleared = with_admin(bootstrap, run)
    print_moves(statuses, output, {})
    if cleared:
        click.echo("Removed the throttle.", err=True)
    not_moving = [each for each in statuses if each.state in (MoveState.ELSEWHERE, MoveState.GONE)]
    if plan is not None and not_moving:
        raise click.ClickException(
            f"{len(not_moving)} partitions differ from the plan and are not being moved: "
            f"{', '.join(str(each.partition) for each in not_moving)}. Execute it again, or make a new plan"
        )
