"""``ruslo pipeline reset``: delete the checkpoint of a pipeline."""

from __future__ import annotations

from pathlib import Path

import click

from ruslo.cli.arguments.options import confirm, examples, output_option, yes_option
from ruslo.cli.pipeline.files import load_valid
from ruslo.cli.terminal.output import hint, print_json


@click.command(
    short_help="Delete the checkpoint of a pipeline.",
    epilog=examples(
        "ruslo pipeline reset orders.yaml",
        "ruslo pipeline reset orders.yaml --start 2026-03-01T10:00 --yes",
        "ruslo pipeline reset archive.yaml --outputs delete --yes",
    ),
)
@click.argument("path", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--start", metavar="POSITION", help="Start at earliest, latest, a time, or offsets as JSON.")
@click.option(
    "--outputs",
    type=click.Choice(["delete", "keep"]),
    help="File sinks: delete the files, or keep them without their batch numbers.",
)
@yes_option
@output_option
def reset(path: Path, start: str | None, outputs: str | None, yes: bool, output: str) -> None:
    """Delete the checkpoint of a stopped pipeline, so that its next run starts over.

    The next run starts at the position in the file, or at --start. Records already written to topics
    stay, and are written again. The state of windows, joins and sessions is deleted.
    """
    from ruslo.pipeline.runner.reset import plan_reset

    (pipeline,) = load_valid([path])
    plan = plan_reset(pipeline, start, outputs)
    what = ", ".join(plan.describe())
    confirm(f"Delete {what}?", yes)
    plan.execute()
    if output == "json":
        print_json({"pipeline": pipeline.name, "deleted": plan.describe(), "start": start})
    else:
        click.echo(f"{pipeline.name}: deleted {what}")
    hint(f"Start it again: ruslo pipeline run {path}")
