from __future__ import annotations

import json

import click
import pytest
from click.testing import CliRunner

from ruslo.cli.main import cli
from ruslo.cli.terminal.output import print_json, print_json_line
from ruslo.cli.terminal.output_format import OutputFormat, output_option
from ruslo.cli.terminal.progress import bar_line
from tests.unit.cli.test_examples import all_commands

# A server logs and prints nothing; a completion script is neither table nor data.
WITHOUT = {"ruslo serve", "ruslo completion"}


@click.command()
@output_option
def command(output: str) -> None:
    if output == "json":
        print_json({"a": [1]})
        print_json_line({"b": 2})
    else:
        click.echo(output)


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        ([], "text\n"),
        (["-o", "table"], "text\n"),
        (["-o", "text"], "text\n"),
        (["-o", "json"], '{\n  "a": [\n    1\n  ]\n}\n{"b":2}\n'),
        (["-o", "yaml"], "a:\n  - 1\n---\nb: 2\n"),
    ],
)
def test_formats(words: list[str], printed: str) -> None:
    assert CliRunner().invoke(command, words).output == printed


def test_an_unknown_format() -> None:
    result = CliRunner().invoke(command, ["-o", "xml"])
    assert result.exit_code == 2
    assert "'table', 'json', 'yaml'" in result.output


@pytest.mark.parametrize(
    ("path", "found"),
    [(path, found) for path, found in all_commands(cli) if not isinstance(found, click.Group)],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_command_has_all_formats(path: str, found: click.Command) -> None:
    kinds = [type(option.type) for option in found.params if "--output" in option.opts]
    assert kinds == ([] if path in WITHOUT else [OutputFormat])


def test_random_uuid_in_yaml() -> None:
    printed = CliRunner().invoke(cli, ["storage", "random-uuid", "-o", "yaml"]).output
    data = json.loads(CliRunner().invoke(cli, ["storage", "random-uuid", "-o", "json"]).output)
    assert len(printed.splitlines()) == len(data)


@pytest.mark.parametrize(
    ("share", "line"),
    [
        (None, "text"),
        (0.0, "[" + "·" * 24 + "]   0%  text"),
        (0.5, "[" + "█" * 12 + "·" * 12 + "]  50%  text"),
        (7.0, "[" + "█" * 24 + "] 100%  text"),
    ],
)
def test_bars(share: float | None, line: str) -> None:
    assert bar_line("text", share) == line
