"""Loads the pipeline files of a command."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.options import F
from ruslo.model.extras import install_extra

if TYPE_CHECKING:
    from ruslo.pipeline.files.load import Loaded
    from ruslo.pipeline.files.model import Pipeline
    from ruslo.pipeline.keys.finding import Finding


def files_argument(function: F) -> F:
    return click.argument(
        "paths", metavar="FILE…", nargs=-1, required=True, type=click.Path(dir_okay=False, path_type=Path)
    )(function)


def load(paths: Sequence[Path]) -> list[Loaded]:
    try:
        from ruslo.pipeline.files.load import load_pipelines
    except ImportError as error:
        raise click.ClickException(
            f"Pipelines need more packages ({error}). Install them: {install_extra('spark')}"
        ) from error
    return load_pipelines(paths)


def load_valid(paths: Sequence[Path]) -> list[Pipeline]:
    """Load the pipelines; exit with 1 and all mistakes if any file is invalid."""
    from ruslo.pipeline.files.load import errors_in

    loaded = load(paths)
    errors = errors_in(loaded)
    if errors:
        print_findings(errors)
        count = f"{len(errors)} mistake{'' if len(errors) == 1 else 's'}"
        raise click.ClickException(f"{count} in the pipeline files. Nothing was run.")
    return [entry.valid() for entry in loaded]


def print_findings(findings: Sequence[Finding]) -> None:
    for finding in findings:
        click.echo(str(finding), err=True)
