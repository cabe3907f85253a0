"""Runs the commands of a console block, in a folder and with a broker of its own."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click
from click.testing import CliRunner

from ruslo.cli.main import cli
from ruslo.model.errors import ConfigError
from tests.docs.blocks import ROOT

SHELL_SYNTAX = re.compile(r"[|<>&;$*`]")
FOREGROUND = re.compile(r"^ruslo (dev|serve|console)\b")
SERVES = re.compile(r"bootstrap\.servers=|console: http")
NEEDS_SPARK = re.compile(r"^ruslo pipeline (test|run|status|stop|reset|pack)\b")
DEFAULT_PORT = re.compile(r"--port 9092\b")
TIMEOUT_S = 60


class CommandFailed(AssertionError):
    pass


class Console:
    """Plain ``ruslo`` commands run in this process, which is fast; other commands run in a shell.

    Commands that serve in the foreground are started, awaited and stopped. Pipelines are only checked;
    tests/pipeline runs them with Spark.
    """

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._folder = folder
        shims = folder / ".bin"
        shims.mkdir()
        for name, module in (("ruslo", "-m ruslo.cli "), ("python", "")):
            shim = shims / name
            shim.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {module}"$@"\n')
            shim.chmod(0o755)
        self._environment = {
            **os.environ,
            "PATH": f"{shims}:{os.environ['PATH']}",
            "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
            # Commands that write to the home directory write here.
            "HOME": str(folder),
            "XDG_CONFIG_HOME": str(folder / ".config"),
            **environment,
        }

    def run(self, command: str, *, may_fail: bool = False) -> None:
        command = _plain(command)
        if command.startswith("make ") or NEEDS_SPARK.match(command):
            check(command)
        elif FOREGROUND.match(command):
            self._serve(command)
        elif command.startswith("ruslo ") and not SHELL_SYNTAX.search(_without_quoted(command)):
            self._run_here(command, may_fail)
        else:
            self._run_in_shell(command, may_fail)

    def _run_here(self, command: str, may_fail: bool) -> None:
        arguments = shlex.split(command, comments=True)[1:]
        before = Path.cwd()
        os.chdir(self._folder)
        try:
            result = CliRunner().invoke(cli, arguments, env=self._environment)
        finally:
            os.chdir(before)
        if result.exit_code != 0 and not may_fail:
            raise CommandFailed(f"{command}\nexit code {result.exit_code}\n{result.output}") from (
                result.exception if not isinstance(result.exception, SystemExit) else None
            )

    def _run_in_shell(self, command: str, may_fail: bool) -> None:
        result = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        if result.returncode != 0 and not may_fail:
            raise CommandFailed(f"{command}\nexit code {result.returncode}\n{result.stdout}{result.stderr}")

    def _serve(self, command: str) -> None:
        if command.startswith("ruslo dev"):
            # The page's own broker uses the default port.
            command = DEFAULT_PORT.sub("", command)
        if not command.startswith("ruslo serve") and "--port" not in command:
            command = FOREGROUND.sub(r"\g<0> --port 0", command)
        arguments = shlex.split(command, comments=True)[1:]
        output = self._folder / ".served"
        with output.open("w") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "ruslo.cli", *arguments],
                cwd=self._folder,
                env=self._environment,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        try:
            deadline = time.monotonic() + TIMEOUT_S
            while not SERVES.search(output.read_text()):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise CommandFailed(f"{command}\ndid not serve\n{output.read_text()}")
                time.sleep(0.05)
            process.send_signal(signal.SIGTERM)
            if process.wait(TIMEOUT_S) != 0:
                raise CommandFailed(f"{command}\nexit code {process.returncode}\n{output.read_text()}")
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def check(command: str) -> None:
    """Check that the command and its options exist, without running it."""
    command = _plain(command)
    if command.startswith("make "):
        check_make(command)
        return
    for part in re.split(r"\|\||&&|[|;]", command):
        words = shlex.split(re.sub(r"\d?>>?\s*\S+|<\s*\S+", "", part), comments=True)
        if words and words[0] == "ruslo":
            check_usage(words[1:])


def check_usage(arguments: Sequence[str]) -> None:
    """Parse as click would, down to the last subcommand."""
    command: click.Command = cli
    rest = list(arguments)
    parent: click.Context | None = None
    while True:
        name = command.name or "ruslo"
        try:
            context = command.make_context(name, rest, parent=parent)
        except (click.exceptions.Exit, ConfigError):
            # The command asks for help, or names a profile that does not exist here.
            return
        except click.UsageError as error:
            if _is_about_a_file(error):
                return
            raise CommandFailed(f"ruslo {shlex.join(arguments)}: {error.format_message()}") from None
        if not isinstance(command, click.Group):
            return
        _, found, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        assert found is not None
        command, parent = found, context


def _is_about_a_file(error: click.UsageError) -> bool:
    """A file that does not exist here is not an error of the page."""
    message = error.format_message().lower()
    return isinstance(error, click.BadParameter) and (
        "does not exist" in message or "no such file" in message
    )


def check_make(command: str) -> None:
    target = command.split()[1]
    if not re.search(rf"^{re.escape(target)}:", (ROOT / "Makefile").read_text(), re.MULTILINE):
        raise CommandFailed(f"{command}: the Makefile has no target {target}")


def _plain(command: str) -> str:
    return command.removeprefix(".venv/bin/").strip()


def _without_quoted(command: str) -> str:
    return re.sub(r"'[^']*'|\"[^\"]*\"", "", command)
