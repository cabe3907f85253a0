"""``ruslo pipeline reset``: forget how far a pipeline is."""

from __future__ import annotations

from pathlib import Path

import click

from ruslo.cli.arguments.options import confirm, examples, output_option, yes_option
from ruslo.cli.pipeline.files import load_valid
from ruslo.cli.terminal.output import hint, print_json


@click.command(
    short_help="Forget how far a pipeline is.",
    epilog=examples(
        "ruslo pipeline reset orders.yaml",
        "ruslo pipeline reset orders.yaml --start 2026-03-01T10:00 --yes",
        "ruslo pipeline reset archive.yaml --outputs delete --yes",
    ),
)
@click.argument("path", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--start", metavar="WHERE", help="Begin at earliest, latest, a time, or offsets as JSON.")
@click.option(
    "--outputs",
    type=click.Choice(["delete", "keep"]),
    help="For sinks that are files: delete them too, or keep them and forget which batch wrote them.",
)
@yes_option
@output_option
def reset(path: Path, start: str | None, outputs: str | None, yes: bool, output: str) -> None:
    """Delete the checkpoint of a pipeline that does not run: its next run begins anew.

    It begins where the file says, or where --start says. What was already written to topics stays, and is
    written again. State of windows, joins and sessions is gone.
    """
    from ruslo.pipeline.runner.resetting import plan_reset

    (pipeline,) = load_valid([path])
    plan = plan_reset(pipeline, start, outputs)
    what = ", ".join(plan.describe())
    confirm(f"Delete {what}?", yes)
    plan.execute()
    if output == "json":
        print_json({"pipeline": pipeline.name, "deleted": plan.describe(), "start": start})
    else:
        click.echo(f"{pipeline.name}: deleted {what}")
    hint(f"It begins anew with: ruslo pipeline run {path}")
