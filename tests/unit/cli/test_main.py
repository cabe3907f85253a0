from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from ruslo.cli.main import COMMANDS, cli
from ruslo.model.errors import ConfigError


def all_commands(
    command: click.Command, path: str, parent: click.Context | None = None
) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command, parent)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from all_commands(child, f"{path} {name}", context)


ALL = dict(all_commands(cli, "ruslo"))
LEAVES = {path: command for path, command in ALL.items() if not isinstance(command, click.Group)}


def test_all_documented_commands_exist() -> None:
    assert set(LEAVES) >= {
        "ruslo dev",
        "ruslo serve",
        "ruslo storage format",
        "ruslo storage random-uuid",
        "ruslo storage info",
        "ruslo topic create",
        "ruslo topic list",
        "ruslo topic describe",
        "ruslo topic alter",
        "ruslo topic delete",
        "ruslo topic add-partitions",
        "ruslo topic delete-records",
        "ruslo produce",
        "ruslo consume",
        "ruslo group list",
        "ruslo group describe",
        "ruslo group members",
        "ruslo group reset-offsets",
        "ruslo group delete",
        "ruslo group delete-offsets",
        "ruslo txn list",
        "ruslo txn describe",
        "ruslo txn producers",
        "ruslo txn find-hanging",
        "ruslo txn abort",
        "ruslo config describe",
        "ruslo config set",
        "ruslo config unset",
        "ruslo cluster info",
        "ruslo log dump",
        "ruslo perf produce",
        "ruslo perf consume",
        "ruslo perf latency",
        "ruslo demo",
    }


@pytest.mark.parametrize("path", ALL)
def test_help_explains_and_shows_an_example(path: str) -> None:
    result = CliRunner().invoke(cli, [*path.split()[1:], "--help"], prog_name="ruslo")
    assert result.exit_code == 0
    assert ALL[path].help
    examples = result.stdout.partition("Examples:")[2]
    assert path in examples
    options = [option for option in ALL[path].params if isinstance(option, click.Option)]
    undocumented = [option.name for option in options if not option.help]
    assert undocumented == []


@pytest.mark.parametrize("name", COMMANDS)
def test_short_help_matches_the_command(name: str) -> None:
    assert COMMANDS[name].short_help == ALL[f"ruslo {name}"].short_help


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys\n"
        "from ruslo.cli.main import cli\n"
        "cli(['--help'], standalone_mode=False)\n"
        "print(*sys.modules, sep='\\n', file=sys.stderr)\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    heavy = {"asyncio", "confluent_kafka", "rich", "uvloop", "ruslo.protocol", "ruslo.client", "ruslo.broker"}
    assert heavy & set(result.stderr.split()) == set()
    assert "ruslo.cli.main" in result.stderr.split()
    assert result.returncode == 0


def test_version() -> None:
    assert CliRunner().invoke(cli, ["--version"]).stdout.startswith("ruslo ")


@pytest.mark.parametrize(
    ("line", "code"),
    [("storage random-uuid >&-", 0), ("topic delete t <&-", 2), ("log dump --help <&- >&- 2>&-", 0)],
)
def test_closed_streams(line: str, code: int) -> None:
    shell = ["sh", "-c", f'"$0" -m ruslo.cli {line}', sys.executable]
    result = subprocess.run(shell, capture_output=True, text=True)
    assert "Traceback" not in result.stderr
    assert result.returncode == code


def test_files_do_not_get_the_descriptors_of_closed_streams() -> None:
    program = "import ruslo.cli.main as m, os; m._open_closed_streams(); os._exit(os.open('/', os.O_RDONLY))"
    result = subprocess.run(["sh", "-c", '"$0" -c "$1" <&- >&- 2>&-', sys.executable, program])
    assert result.returncode >= 3


def test_an_unknown_command_is_a_usage_error_with_a_hint() -> None:
    result = CliRunner().invoke(cli, ["topics"])
    assert result.exit_code == 2
    assert "Did you mean 'topic'?" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["topic", "create"],
        ["topic", "alter", "t"],
        ["topic", "create", "t", "-c", "novalue"],
        ["topic", "add-partitions", "t", "--total", "0"],
        ["topic", "delete", "t"],
        ["config", "describe"],
        ["config", "describe", "--topic", "t", "--all-brokers"],
        ["config", "set", "--topic", "t", "novalue"],
        ["consume", "t", "--from", "yesterday"],
        ["consume", "t", "-f", "%q"],
        ["consume", "t", "-o", "json", "-f", "%s"],
        ["produce", "t", "--json", "--whole"],
        ["produce", "t", "-D", ""],
        ["produce", "t", "-z", "brotli"],
        ["dev", "--brokers", "0"],
        ["dev", "--port", "70000"],
        ["serve"],
        ["serve", "-c", "no-such-file"],
        ["log", "dump"],
        ["perf", "produce", "t", "--size", "0"],
    ],
)
def test_wrong_usage_exits_with_2(arguments: list[str]) -> None:
    # Nothing listens on port 1: a command that connects would exit with 1.
    result = CliRunner().invoke(cli, arguments, env={"RUSLO_BOOTSTRAP": "127.0.0.1:1"})
    assert result.exit_code == 2, result.output
    assert "Error" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["topic", "list"],
        ["cluster", "info"],
        ["produce", "t"],
        ["consume", "t"],
        ["perf", "latency", "t"],
        ["config", "describe", "--topic", "t"],
        ["demo", "-b", "127.0.0.1:1"],
    ],
)
def test_an_unreachable_broker(arguments: list[str]) -> None:
    result = CliRunner().invoke(cli, arguments, env={"RUSLO_BOOTSTRAP": "127.0.0.1:1"})
    assert result.exit_code == 1
    assert "cannot connect to 127.0.0.1:1 (connection refused)" in result.stderr
    assert "ruslo dev --port 1" in result.stderr
    assert result.stdout == ""


def test_a_malformed_address() -> None:
    result = CliRunner().invoke(cli, ["topic", "list", "-b", "localhost"])
    assert result.exit_code == 1
    assert "'localhost' in bootstrap.servers is not HOST:PORT" in result.stderr


def test_known_errors_become_messages_and_bugs_keep_their_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def raise_(error: Exception) -> None:
        raise error

    monkeypatch.setattr("ruslo.cli.running.with_admin", lambda *_: raise_(ConfigError("what and why")))
    monkeypatch.setattr("ruslo.cli.topic.list.with_admin", lambda *_: raise_(ConfigError("what and why")))
    result = CliRunner().invoke(cli, ["topic", "list"])
    assert (result.exit_code, result.stderr) == (1, "Error: what and why\n")
    monkeypatch.setattr("ruslo.cli.topic.list.with_admin", lambda *_: raise_(ZeroDivisionError("a bug")))
    assert isinstance(CliRunner().invoke(cli, ["topic", "list"]).exception, ZeroDivisionError)


def test_ctrl_c_exits_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ruslo.cli.topic.list.with_admin", interrupted)
    result = CliRunner().invoke(cli, ["topic", "list"])
    assert (result.exit_code, result.output) == (130, "")


def test_all_commands_but_two_have_json_output() -> None:
    """As documented in docs/commands.md."""
    without = set()
    for name, command in all_commands(cli, "ruslo"):
        if isinstance(command, click.Group):
            continue
        options = [each for each in command.params if "--output" in each.opts]
        if not any({"json", "yaml"} <= set(getattr(each.type, "choices", ())) for each in options):
            without.add(name)
    assert without == {"ruslo serve", "ruslo completion"}
