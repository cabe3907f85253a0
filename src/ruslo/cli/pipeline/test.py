"""``ruslo pipeline test``: run the examples of pipeline files in Spark, without a broker."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.options import examples, output_option
from ruslo.cli.pipeline.files import files_argument, load_valid
from ruslo.cli.terminal.output import print_json

if TYPE_CHECKING:
    from ruslo.pipeline.examples.example_run import ExampleResult
    from ruslo.pipeline.files.model import Pipeline


@click.command(
    short_help="Run the examples in pipeline files.",
    epilog=examples(
        "ruslo pipeline test orders.yaml", "ruslo pipeline test orders.yaml -k 'late events' -o json"
    ),
)
@files_argument
@click.option("-k", "word", metavar="WORD", help="Only examples whose name contains WORD.")
@output_option
def test(paths: tuple[Path, ...], word: str | None, output: str) -> None:
    """Run the steps of a pipeline on the records of each example, and compare with the expected records.

    Spark runs in this process; no broker, checkpoint or sink is used. Exit code 1: an example failed, or
    there are no examples.
    """
    from ruslo.pipeline.examples.example_run import run_example
    from ruslo.pipeline.runner.spark_settings import local_spark

    pipelines = load_valid(paths)
    chosen = [
        (pipeline, example)
        for pipeline in pipelines
        for example in pipeline.examples
        if word is None or word in example.name
    ]
    if not chosen:
        raise click.ClickException("No examples found. Add some under 'examples:' in the file.")
    results: list[tuple[Pipeline, ExampleResult]] = []
    with local_spark("ruslo pipeline test", pipelines) as spark:
        for pipeline, example in chosen:
            result = run_example(spark, pipeline, example)
            results.append((pipeline, result))
            if output == "text":
                _print(pipeline, result)
    passed = sum(result.passed for _, result in results)
    if output == "json":
        rows = [{"pipeline": pipeline.name} | result.as_json() for pipeline, result in results]
        print_json({"ok": passed == len(results), "examples": rows})
    else:
        click.echo(f"{passed} of {len(results)} examples passed")
    if passed < len(results):
        raise click.exceptions.Exit(1)


def _print(pipeline: Pipeline, result: ExampleResult) -> None:
    word = "ok  " if result.passed else "FAIL"
    click.echo(f"{word}  {pipeline.name}: {result.example.name}")
    if result.passed:
        return
    click.echo(f"      {result.example.location}")
    lines = [result.error] if result.error is not None else []
    for comparison in result.comparisons:
        lines += [] if comparison.is_equal else comparison.lines()
    for line in "\n".join(lines).splitlines():
        click.echo(f"      {line}")
