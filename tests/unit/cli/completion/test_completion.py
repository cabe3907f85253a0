from __future__ import annotations

import asyncio
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.shell_completion import BashComplete, CompletionItem
from click.testing import CliRunner

from ruslo.cli.main import cli
from ruslo.client.admin.admin import Admin
from ruslo.client.admin.topics import NewTopic
from ruslo.testing import EmbeddedBroker


def completions(*words: str) -> list[str]:
    *before, incomplete = words
    found: list[CompletionItem] = BashComplete(cli, {}, "ruslo", "_RUSLO_COMPLETE").get_completions(
        list(before), incomplete
    )
    return [item.value for item in found]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_contain_the_command(shell: str) -> None:
    done = CliRunner().invoke(cli, ["completion", shell])
    assert done.exit_code == 0
    assert "_RUSLO_COMPLETE" in done.output


def test_the_bash_script_is_valid(tmp_path: Path) -> None:
    script = tmp_path / "ruslo"
    script.write_text(CliRunner().invoke(cli, ["completion", "bash"]).output)
    assert subprocess.run(["bash", "-n", str(script)]).returncode == 0


def test_commands_are_completed_without_importing_them() -> None:
    assert completions("to") == ["topic", "token"]
    script = (
        "import sys, ruslo.cli.main as m; from click.shell_completion import BashComplete as B;"
        "B(m.cli, {}, 'ruslo', 'X').get_completions([], '');"
        "print([n for n in sys.modules if n in ('ruslo.cli.topic.topic', 'ruslo.cli.perf.perf', 'asyncio')])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


def test_values_of_options() -> None:
    assert completions("topic", "list", "-o", "") == ["table", "json", "yaml"]


def test_names_of_topics(ruslo_broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    async def create() -> None:
        async with Admin(ruslo_broker.bootstrap) as admin:
            await admin.topics.create([NewTopic("completed-a"), NewTopic("completed-b")])

    asyncio.run(create())
    monkeypatch.setenv("RUSLO_BOOTSTRAP", ruslo_broker.bootstrap)
    assert completions("topic", "describe", "compl") == ["completed-a", "completed-b"]
    assert completions("consume", "completed-b") == ["completed-b"]
    assert completions("group", "describe", "no-such") == []


def test_an_unreachable_cluster_completes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUSLO_BOOTSTRAP", "127.0.0.1:1")
    assert completions("topic", "describe", "x") == []
    assert completions("topic", "describe", "-b", "not an address", "x") == []


def test_bash_completes_names_after_an_address(ruslo_broker: EmbeddedBroker, tmp_path: Path) -> None:
    async def create() -> None:
        async with Admin(ruslo_broker.bootstrap) as admin:
            await admin.topics.create([NewTopic("live-completed")])

    asyncio.run(create())
    script = tmp_path / "ruslo.bash"
    script.write_text(CliRunner().invoke(cli, ["completion", "bash"]).output)
    typed = f"ruslo topic describe -b {ruslo_broker.bootstrap} live-comp"
    keyboard, terminal = pty.openpty()
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "TERM": "dumb"}
    with subprocess.Popen(
        ["bash", "--noprofile", "--rcfile", script, "-i"],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=environment,
        start_new_session=True,
    ) as shell:
        os.close(terminal)
        try:
            os.write(keyboard, typed.encode())
            shown, deadline = b"", time.monotonic() + 120
            while b"live-completed" not in shown and time.monotonic() < deadline:
                os.write(keyboard, b"\t")  # repeatedly, because completion gives up after a second
                while select.select([keyboard], [], [], 2)[0]:
                    shown += os.read(keyboard, 4096)
            assert b"live-completed" in shown
        finally:
            shell.kill()
            os.close(keyboard)
