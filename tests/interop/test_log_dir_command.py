"""``ruslo cluster reassign log-dir`` and Kafka's tools move replicas of a node of either system."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

pytest.register_assert_rewrite("tests.support.checks.cli_checks")

from ruslo.cli.cluster.reassign.throttle import LOG_DIR_RATE  # noqa: E402
from ruslo.model.topics import TopicPartition  # noqa: E402
from tests.support.brokers.kafka import ApacheKafka  # noqa: E402
from tests.support.brokers.node import Node  # noqa: E402
from tests.support.brokers.ruslo import RusloNode  # noqa: E402
from tests.support.checks.cli_checks import Cli  # noqa: E402
from tests.support.clients.librdkafka import Sent, produce_all, read_records  # noqa: E402
from tests.support.clients.log_dir_moves import wait_until_moved  # noqa: E402
from tests.support.tools.java_tools import run_tool, tool_output  # noqa: E402

TP = TopicPartition("t", 0)


@pytest.fixture(params=[RusloNode, ApacheKafka])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Node]:
    system: type[Node] = request.param
    node = system(tmp_path, data_dirs=[tmp_path / "a", tmp_path / "b"]).start()
    try:
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(30)
        produce_all(node.bootstrap, "t", [Sent(b"%d" % each, partition=0) for each in range(100)], {})
        yield node
    finally:
        node.kill()


def test_the_command_and_kafkas_tool(node: Node, tmp_path: Path) -> None:
    source, target = sorted(node.data_dirs, key=lambda each: not (each / "t-0").exists())
    cli = Cli(node.bootstrap)
    arguments = ("cluster", "reassign", "log-dir", str(target), "--broker", str(node.node_id), "--topic", "t")
    (move,) = cli.json(*arguments, "--wait")["partitions"]
    assert (move["topic"], move["partition"], move["state"], move["offset_lag"]) == ("t", 0, "done", 0)
    assert (target / "t-0").exists()

    plan = tmp_path / "plan.json"
    entry = {"topic": "t", "partition": 0, "replicas": [node.node_id], "log_dirs": [str(source)]}
    plan.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    run_tool(
        "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
        "--bootstrap-server",
        node.bootstrap,
        "--reassignment-json-file",
        str(plan),
        "--execute",
    )
    wait_until_moved(node.bootstrap, node.node_id, [TP], source)
    assert len(read_records(node.bootstrap, "t", 1, 100)) == 100


def test_a_plan_names_log_directories(node: Node, tmp_path: Path) -> None:
    cli, verify = Cli(node.bootstrap), tmp_path / "plan.json"
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.create_topics([NewTopic("u", 3, 1)])["u"].result(30)
    first, second = map(str, node.data_dirs)
    move = ("cluster", "reassign", "execute", "-")

    def plan(path: str) -> str:
        entries = [
            {"topic": "u", "partition": index, "replicas": [node.node_id], "log_dirs": [path]}
            for index in range(3)
        ]
        return json.dumps({"version": 1, "partitions": entries})

    assert "has no log directory /elsewhere" in cli.fails(*move, stdin=plan("/elsewhere"))
    cli.ok(*move, "--wait", stdin=plan(first))
    before = tmp_path / "before.json"
    moved = cli.json(
        *move, "--wait", "--log-dir-throttle", "50MB", "--save-current", str(before), stdin=plan(second)
    )
    assert [(each["state"], each["log_dirs_pending"]) for each in moved["partitions"]] == [("done", [])] * 3
    assert all((Path(second) / f"u-{index}").exists() for index in range(3))
    verify.write_text(plan(first))
    status = cli.run("cluster", "reassign", "status", str(verify), "-o", "json")
    assert status.exit_code == 1, "the replicas are elsewhere and do not move"
    assert json.loads(before.read_text()) == json.loads(plan(first))
    cli.ok("cluster", "reassign", "execute", str(before), "--wait", "--log-dir-throttle", "50MB")
    verified = tool_output(
        "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
        *("--bootstrap-server", node.bootstrap, "--reassignment-json-file", str(before), "--verify"),
    )
    assert verified.count("completed successfully") == 3
    configs = cli.json("config", "describe", "--broker", str(node.node_id))
    assert not [each for each in configs if each["name"] == LOG_DIR_RATE and each["value"] == "50000000"]
