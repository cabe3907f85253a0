"""Every command and option in help texts and documentation exists."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from ruslo.cli.main import cli

DOCS = Path(__file__).resolve().parents[3] / "docs"
COMMANDS_PAGE = DOCS / "commands.md"
PAGES = (
    COMMANDS_PAGE,
    DOCS / "groups.md",
    DOCS / "share-groups.md",
    DOCS / "pipelines.md",
    DOCS / "transactions.md",
    DOCS / "cluster.md",
)


def all_commands(command: click.Command, path: str = "ruslo") -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from all_commands(child, f"{path} {name}")


def example_lines() -> Iterator[str]:
    for _, command in all_commands(cli):
        assert command.epilog is not None
        yield from (line.strip() for line in command.epilog.splitlines() if "ruslo " in line)


def documented_lines() -> Iterator[str]:
    for page in PAGES:
        for line in page.read_text().splitlines():
            if line.startswith("$ "):
                yield line[2:]


def ruslo_calls(line: str) -> Iterator[list[str]]:
    """The arguments of each ``ruslo`` call in a shell line."""
    line = re.sub(r'"\$\(.*?\)"', "X", line)
    arguments = shlex.split(line, comments=True)
    call: list[str] | None = None
    for word in [*arguments, "|"]:
        if word in ("|", "&&", "&", ";", ">", "<"):
            if call is not None:
                yield call
            call = None
        elif call is not None:
            call.append(word)
        elif word == "ruslo":
            call = []


def check(arguments: list[str]) -> None:
    command: click.Command = cli
    context = click.Context(cli, info_name="ruslo")
    if arguments[0] == "--profile":
        arguments = arguments[2:]
    while isinstance(command, click.Group):
        child = command.get_command(context, arguments[0])
        assert child is not None, f"unknown command {arguments[0]!r}"
        command, arguments = child, arguments[1:]
    _, _, order = command.make_parser(click.Context(command)).parse_args(list(arguments))
    required = {parameter.name for parameter in command.params if parameter.required}
    assert required <= {parameter.name for parameter in order}


@pytest.mark.parametrize("line", list(example_lines()))
def test_examples_of_help(line: str) -> None:
    calls = list(ruslo_calls(line))
    assert calls
    for arguments in calls:
        check(arguments)


@pytest.mark.parametrize("line", list(documented_lines()))
def test_examples_of_the_documentation(line: str) -> None:
    for arguments in ruslo_calls(line):
        check(arguments)


def test_the_documentation_shows_every_command() -> None:
    text = COMMANDS_PAGE.read_text()
    leaves = [path for path, command in all_commands(cli) if not isinstance(command, click.Group)]
    assert [path for path in leaves if path not in text] == []
