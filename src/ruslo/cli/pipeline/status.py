"""``ruslo pipeline status`` and ``stop``: running pipelines, from another terminal."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ruslo.cli.arguments.options import Amount, examples, output_option
from ruslo.cli.pipeline.files import files_argument, load_valid
from ruslo.cli.terminal.output import print_json, print_table

if TYPE_CHECKING:
    from ruslo.pipeline.files.model import Pipeline


@click.command(
    short_help="Show how running pipelines do.",
    epilog=examples("ruslo pipeline status orders.yaml", "ruslo pipeline status orders.yaml -o json"),
)
@files_argument
@output_option
def status(paths: tuple[Path, ...], output: str) -> None:
    """Show how pipelines do, or how they did when they last ran. Exits 1 if one has failed or died."""
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


@click.command(
    short_help="Stop running pipelines after their batch.",
    epilog=examples("ruslo pipeline stop orders.yaml", "ruslo pipeline stop orders.yaml --timeout 300"),
)
@files_argument
@click.option(
    "--timeout",
    type=Amount(0),
    default=90.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait.",
)
@output_option
def stop(paths: tuple[Path, ...], timeout: float, output: str) -> None:
    """Ask running pipelines to stop when their batch is done, and wait for it.

    Others that run in the same process go on. Exits 1 if one still runs when the time is up.
    """
    from ruslo.pipeline.runner.run_folder import run_folder
    from ruslo.runs.folder import RunFolder

    pipelines = load_valid(paths)
    folders = {pipeline.name: RunFolder(run_folder(pipeline)) for pipeline in pipelines}
    running = {name: folder for name, folder in folders.items() if _runs(folder)}
    for folder in running.values():
        folder.ask_to_stop()
    deadline = time.monotonic() + timeout
    left = dict(running)
    while left and time.monotonic() < deadline:
        time.sleep(0.1)
        left = {name: folder for name, folder in left.items() if _runs(folder)}
    states = {
        name: "running" if name in left else "stopped" if name in running else "not running"
        for name in folders
    }
    if output == "json":
        print_json([{"pipeline": name, "state": state} for name, state in states.items()])
    else:
        for name, state in states.items():
            click.echo(f"{name}: {state}")
    if left:
        raise click.ClickException(
            f"{', '.join(left)}: the batch takes longer than {timeout:g} s. Wait for it, or kill."
        )


def _runs(folder: Any) -> bool:
    """Whether a process holds it and its queries are not over: one process may hold several pipelines."""
    last = folder.status()
    over = last is not None and last["state"] in ("stopped", "finished", "failed")
    return folder.is_held() and not over


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
