"""``ruslo pipeline lint``: find mistakes in pipeline files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.options import examples, output_option
from ruslo.cli.pipeline.files import files_argument, load
from ruslo.cli.terminal.output import print_json

if TYPE_CHECKING:
    from ruslo.pipeline.files.load import Loaded
    from ruslo.pipeline.keys.finding import Finding


@click.command(
    short_help="Find mistakes in pipeline files.",
    epilog=examples(
        "ruslo pipeline lint orders.yaml",
        "ruslo pipeline lint pipelines/orders.yaml pipelines/payments.yaml -o json",
        "ruslo pipeline lint orders.yaml --spark",
    ),
)
@files_argument
@click.option(
    "--spark", "with_spark", is_flag=True, help="Check queries, columns and types with Spark as well."
)
@output_option
def lint(paths: tuple[Path, ...], with_spark: bool, output: str) -> None:
    """Check pipeline files: keys, names, durations, schemas, functions, checkpoints, examples.

    In SQL it checks quotes, brackets, commas and view names, without Spark. --spark starts Spark and analyzes
    every view over empty sources; this needs a schema for every source.

    Exit code 1: a file has an error. Warnings do not count.
    """
    from ruslo.pipeline.keys.finding import Severity

    loaded = load(paths)
    findings = [finding for entry in loaded for finding in entry.findings]
    if with_spark:
        findings += _spark_findings(loaded)
    failed = any(finding.severity is Severity.ERROR for finding in findings)
    if output == "json":
        print_json({"ok": not failed, "findings": [finding.as_json() for finding in findings]})
    else:
        for finding in findings:
            click.echo(str(finding))
        for entry in loaded:
            if not any(finding.location.file == entry.path for finding in findings):
                click.echo(f"{entry.path}: no mistakes")
    if failed:
        raise click.exceptions.Exit(1)


def _spark_findings(loaded: Sequence[Loaded]) -> list[Finding]:
    from ruslo.pipeline.examples.example_run import check_with_spark
    from ruslo.pipeline.keys.finding import Finding
    from ruslo.pipeline.runner.spark_settings import local_spark

    pipelines = [entry.pipeline for entry in loaded if entry.pipeline is not None]
    if not pipelines:
        return []
    findings = []
    with local_spark("ruslo pipeline lint", pipelines) as spark:
        for pipeline in pipelines:
            problem = check_with_spark(spark, pipeline)
            if problem is not None:
                findings.append(Finding(problem.location, "spark", f"{problem.what}: {problem.reason}", ""))
    return findings
