"""``ruslo doctor``: check this machine and report what to fix."""

from __future__ import annotations

from pathlib import Path

import click

from ruslo.cli.arguments.options import examples, output_option
from ruslo.cli.terminal.colours import painted
from ruslo.cli.terminal.output import print_json

_COLOURS = {"ok": "green", "warning": "yellow", "problem": "red"}


@click.command(
    short_help="Check this machine and report what to fix.",
    epilog=examples(
        "ruslo doctor",
        "ruslo doctor --data-dir /var/lib/ruslo --port 9092 --port 9093",
        "ruslo doctor -o json | jq '.checks[] | select(.state != \"ok\")'",
    ),
)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    show_default="the current folder",
    help="Data directory of the broker.",
)
@click.option(
    "--port",
    "ports",
    type=click.IntRange(1, 65535),
    multiple=True,
    default=(9092, 9404),
    show_default=True,
    help="A port that the broker needs. Repeatable.",
)
@click.option("--strict", is_flag=True, help="Exit with 1 for warnings as well.")
@output_option
def doctor(data_dir: Path, ports: tuple[int, ...], strict: bool, output: str) -> None:
    """Check this machine for a broker and for pipelines, without changing anything.

    Every problem and warning is printed with its fix. Exit code 1: there is a problem (or, with --strict,
    a warning).
    """
    from ruslo.cli.doctor.checks import State, examine

    findings = examine(data_dir, ports)
    worst = {finding.state for finding in findings}
    failed = State.PROBLEM in worst or (strict and State.WARNING in worst)
    if output == "json":
        checks = [finding._asdict() for finding in findings]
        print_json({"ok": not failed, "checks": checks})
    else:
        width = max(len(finding.name) for finding in findings)
        for finding in findings:
            state = painted(f"{finding.state:<7}", _COLOURS[finding.state])
            click.echo(f"{state}  {finding.name:<{width}}  {finding.found}")
            if finding.fix:
                click.echo(f"{'':9}{'':{width}}  → {finding.fix}")
        problems = sum(finding.state is State.PROBLEM for finding in findings)
        warnings = sum(finding.state is State.WARNING for finding in findings)
        click.echo()
        click.echo(
            "No problems found." if not worst - {State.OK} else f"Problems: {problems}, warnings: {warnings}."
        )
    if failed:
        raise click.exceptions.Exit(1)
