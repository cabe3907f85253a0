"""``ruslo pipeline stop``: stop running pipelines from another terminal."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ruslo.cli.arguments.options import Amount, examples, output_option
from ruslo.cli.pipeline.files import files_argument, load_valid
from ruslo.cli.terminal.output import print_json

if TYPE_CHECKING:
    pass


@click.command(
    short_help="Stop running pipelines after their current batch.",
    epilog=examples("ruslo pipeline stop orders.yaml", "ruslo pipeline stop orders.yaml --timeout 300"),
)
@files_argument
@click.option(
    "--timeout",
    type=Amount(0),
    default=90.0,
    show_default=True,
    metavar="SECONDS",
    help="Time to wait for the current batch.",
)
@output_option
def stop(paths: tuple[Path, ...], timeout: float, output: str) -> None:
    """Stop running pipelines after their current batch, and wait until they have stopped.

    Other pipelines of the same process continue. Exit code 1: a pipeline is still running after the timeout.
    """
    from ruslo.pipeline.runner.run_folder import run_folder
    from ruslo.runs.folder import RunFolder

    pipelines = load_valid(paths)
    folders = {pipeline.name: RunFolder(run_folder(pipeline)) for pipeline in pipelines}
    running = {name: folder for name, folder in folders.items() if _is_running(folder)}
    for folder in running.values():
        folder.request_stop()
    deadline = time.monotonic() + timeout
    left = dict(running)
    while left and time.monotonic() < deadline:
        time.sleep(0.1)
        left = {name: folder for name, folder in left.items() if _is_running(folder)}
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
            f"{', '.join(left)} did not stop within {timeout:g} s. Wait longer, or kill the process."
        )


def _is_running(folder: Any) -> bool:
    """True if a process holds the run folder and the queries of this pipeline have not ended."""
    last = folder.status()
    ended = last is not None and last["state"] in ("stopped", "finished", "failed")
    return folder.is_held() and not ended
