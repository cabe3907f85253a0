"""Checks of streams groups in ``ruslo group``, with a Kafka Streams application of the streams protocol."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.checks.cli_checks import Cli
from tests.support.checks.group_checks import until
from tests.support.tools.kafka_jars import support_java_command
from tests.support.tools.programs import require_tool

STREAMS_NODE_PROPERTIES = {
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.heartbeat.interval.ms": "200",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
}
PARTITIONS = 2


class Application(NamedTuple):
    group: str
    input: str
    output: str


@contextmanager
def running(cli: Cli, application: Application, state: Path) -> Iterator[None]:
    """One instance with two threads, which counts values."""
    command = support_java_command(
        "CountingStreams",
        cli.bootstrap,
        *application,
        str(state),
        "group.protocol=streams",
        "application.server=localhost:7070",
        "num.stream.threads=2",
        log_level="ERROR",
    )
    process = subprocess.Popen(command)
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


class StreamsChecks:
    """A subclass provides the fixture ``bootstrap``."""

    @pytest.fixture
    def cli(self, bootstrap: str) -> Cli:
        return Cli(bootstrap)

    def test_topology_tasks_and_members(self, cli: Cli, tmp_path: Path) -> None:
        require_tool("java")
        options = ("-p", str(PARTITIONS))
        name = f"counter-{uuid.uuid4().hex[:8]}"
        application = Application(name, cli.new_topic(*options), cli.new_topic(*options))
        for partition in range(PARTITIONS):
            cli.ok("produce", application.input, "-p", str(partition), stdin="a\nb\na\n")
        with running(cli, application, tmp_path):

            def is_settled(views: Any) -> bool:
                tasks = {task["task"]: task for task in views[0]["tasks"]}
                read = [tasks[name]["lag"] for name in ("0_0", "0_1") if name in tasks]
                active = [task for task in tasks.values() if task["active"]]
                return read == [0, 0] and len(active) == 2 * PARTITIONS

            until(
                cli,
                ["group", "list", "--type", "streams"],
                lambda rows: [row["members"] for row in rows if row["group_id"] == name] == [2],
            )
            (view,) = until(cli, ["group", "describe", name], is_settled, timeout_s=120)
            self.check_view(application, view)
            text = cli.ok("group", "describe", name)
            assert f"{name}-counts-changelog" in text
            assert "localhost:7070" in text
            assert "0_0" in cli.ok("group", "members", name)
            members = cli.json("group", "members", name)["members"]
            assert len({member["process_id"] for member in members}) == 1
            assert "has members" in cli.fails("group", "delete", name, "--yes")
            assert "is a streams group. Use 'ruslo group describe" in cli.fails("share", "describe", name)
        until(cli, ["group", "describe", name], lambda views: views[0]["state"] == "Empty", timeout_s=120)
        result = cli.run("group", "reset-offsets", name, "--all-topics", "--to-earliest", "--execute")
        assert result.exit_code == 0, result.output
        assert f"delete {name}-by-value-repartition, {name}-counts-changelog" in result.stderr
        (idle,) = cli.json("group", "describe", name)
        lags = {task["task"]: task["lag"] for task in idle["tasks"]}
        assert (lags["0_0"], lags["0_1"]) == (3, 3)
        assert cli.ok("group", "delete", name, "--yes") == f"deleted {name}\n"

    def check_view(self, application: Application, view: dict[str, Any]) -> None:
        first, second = view["subtopologies"]
        repartition = f"{application.group}-by-value-repartition"
        assert (first["source_topics"], first["repartition_sink_topics"]) == (
            [application.input],
            [repartition],
        )
        assert second["repartition_source_topics"] == [repartition]
        assert second["changelog_topics"] == [f"{application.group}-counts-changelog"]
        assert [task["task"] for task in view["tasks"]] == ["0_0", "0_1", "1_0", "1_1"]
        assert (view["type"], view["state"], view["member_count"]) == ("streams", "Stable", 2)
        assigned = [task for member in view["members"] for task in member["tasks"]["active"]]
        assert sorted(assigned) == ["0_0", "0_1", "1_0", "1_1"]
        assert {member["endpoint"] for member in view["members"]} == {"localhost:7070"}
