"""``ruslo pipeline status``: the state of pipelines, from another terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ruslo.cli.arguments.options import examples, output_option
from ruslo.cli.pipeline.files import files_argument, load_valid
from ruslo.cli.terminal.output import print_json, print_table

if TYPE_CHECKING:
    from ruslo.pipeline.files.model import Pipeline


@click.command(
    short_help="Show the state of pipelines.",
    epilog=examples("ruslo pipeline status orders.yaml", "ruslo pipeline status orders.yaml -o json"),
)
@files_argument
@output_option
def status(paths: tuple[Path, ...], output: str) -> None:
    """Show the state of pipelines, or of their last run. Exit code 1: a pipeline failed or died."""
    found = [_status(pipeline) for pipeline in load_valid(paths)]
    if output == "json":
        print_json(found)
    else:
        rows = [
            (
                entry["pipeline"],
                query["sink"],
                "died" if entry["state"] == "died" else query["state"],
                query["records_in"],
                round(query["in_per_second"]),
                query["records_out"],
                round(query["out_per_second"]),
                query["lag_records"],
                query["batch_ms"],
                entry["dead_letters"],
                query["restarts"],
            )
            for entry in found
            for query in entry["queries"]
        ]
        rows += [(entry["pipeline"], *["-"] * 10) for entry in found if not entry["queries"]]
        print_table(
            [
                "PIPELINE",
                "SINK",
                "STATE",
                "IN",
                "IN/S",
                "OUT",
                "OUT/S",
                "LAG",
                "BATCH-MS",
                "DEAD",
                "RESTARTS",
            ],
            rows,
        )
        for entry in found:
            for query in entry["queries"]:
                if query["error"] is not None:
                    click.echo(f"{entry['pipeline']}.{query['sink']}: {query['error']}", err=True)
    if any(entry["state"] in ("failed", "died") for entry in found):
        raise click.exceptions.Exit(1)


def _status(pipeline: Pipeline) -> dict[str, Any]:
    from ruslo.pipeline.runner.run_folder import run_folder
    from ruslo.runs.folder import RunFolder

    last = RunFolder(run_folder(pipeline)).report()
    if last is not None:
        return last
    never = {"pipeline": pipeline.name, "file": str(pipeline.path), "state": "never ran"}
    nothing = dict.fromkeys(
        ("bootstrap", "dead_letter_topic", "dead_letters", "started_at", "updated_at", "pid", "host")
    )
    return {**never, **nothing, "queries": [], "running": False}
