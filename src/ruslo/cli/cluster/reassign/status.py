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
@click.option("--wait", is_flag=True, help="Wait until nothing of the plan moves any more.")
@click.option("--preserve-throttle", is_flag=True, help="Leave the throttle when all is done.")
@output_option
def status(file: TextIO | None, bootstrap: str, wait: bool, preserve_throttle: bool, output: str) -> None:
    """Show what moves, or how far a plan is. When all of a plan is done its throttle is removed.

    Exit code 1: a partition of the plan has other replicas and is not on its way to the plan's.
    """
    from ruslo.cli.cluster.reassign.plan_file import read_plan
    from ruslo.cli.cluster.reassign.progress import MoveState, print_moves, settled_progress, wait_until_done
    from ruslo.cli.cluster.reassign.throttle import clear_throttle
    from ruslo.cli.terminal.progress import Progress

    wanted = None if file is None else read_plan(file)
    if wait and wanted is None:
        raise click.UsageError("--wait needs the plan to wait for.")

    async def run(admin: Admin) -> tuple[list[MoveStatus], bool]:
        if wait and wanted is not None:
            progress = Progress()
            statuses = await wait_until_done(admin, wanted, progress)
            progress.clear()
        else:
            statuses = await settled_progress(admin, wanted)
        finished = wanted is not None and all(each.state is MoveState.DONE for each in statuses)
        if wanted is None or not finished or preserve_throttle:
            return statuses, False
        return statuses, await clear_throttle(admin, {partition.topic for partition in wanted})

    statuses, cleared = with_admin(bootstrap, run)
    print_moves(statuses, output, {})
    if cleared:
        click.echo("The throttle was removed.", err=True)
    astray = [each for each in statuses if each.state in (MoveState.ELSEWHERE, MoveState.GONE)]
    if wanted is not None and astray:
        raise click.ClickException(
            f"{len(astray)} partitions are not where the plan wants them and not on their way: "
            f"{', '.join(str(each.partition) for each in astray)}. Execute it again, or make a new plan"
        )
