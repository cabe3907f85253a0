"""Cluster commands and decisions of our controller, compared with a three-node Apache Kafka cluster."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.register_assert_rewrite("tests.support.checks.cli_checks")

from ruslo.client.admin.admin import Admin  # noqa: E402
from ruslo.client.admin.topics import NewTopic  # noqa: E402
from tests.support.brokers.kafka_cluster import ApacheKafkaCluster  # noqa: E402
from tests.support.checks.cli_checks import Cli  # noqa: E402
from tests.support.machines.reassignment_script import KafkaController, RusloController, run_script  # noqa: E402
from tests.support.tools.java_tools import tool_output  # noqa: E402
from tests.support.tools.programs import require_tool  # noqa: E402

REASSIGN_TOOL = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafkaCluster]:
    require_tool("java")
    with ApacheKafkaCluster(tmp_path_factory.mktemp("kafka-cluster")) as cluster:
        yield cluster


@pytest.fixture
def cli(cluster: ApacheKafkaCluster) -> Cli:
    return Cli(cluster.bootstrap)


def until(condition: Callable[[], bool], description: str) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, description
        time.sleep(0.1)


def create(cli: Cli, name: str, *replicas: list[int]) -> None:
    """Create a topic with the given placement; ``ruslo topic create`` leaves it to the controller."""

    async def run() -> None:
        async with Admin(cli.bootstrap) as admin:
            results = await admin.topics.create([NewTopic(name, assignments=dict(enumerate(replicas)))])
            assert not isinstance(results[name], Exception), results

    asyncio.run(run())


def replicas_of(cli: Cli, topic: str) -> list[list[int]]:
    (described,) = cli.json("topic", "describe", topic)
    return [partition["replicas"] for partition in described["partitions"]]


def voter_that_follows(cli: Cli) -> int:
    """A voter other than the active controller."""
    leader: int = cli.json("cluster", "quorum")["leader_id"]
    return max({1, 2, 3} - {leader})


def test_our_controller_decides_as_apache_kafkas_does(cluster: ApacheKafkaCluster, cli: Cli) -> None:
    c = voter_that_follows(cli)
    a, b = sorted({1, 2, 3} - {c})
    theirs, ours = KafkaController(cluster, broker_id=a), RusloController()
    assert run_script(ours, a, b, c) == run_script(theirs, a, b, c)
    expected = ours.records()
    until(lambda: len(theirs.records()) >= len(expected), "the metadata log lacks records")
    assert expected == theirs.records()[: len(expected)]


def test_a_cluster_is_described(cli: Cli) -> None:
    create(cli, "looks", [1, 2], [2, 3])
    brokers = cli.json("cluster", "brokers")
    assert [(each["id"], each["rack"], each["fenced"]) for each in brokers] == [
        (1, "a", False),
        (2, "b", False),
        (3, "c", False),
    ]
    assert "OUT OF SYNC" in cli.ok("cluster", "brokers")
    quorum = cli.json("cluster", "quorum")
    assert sorted(each["id"] for each in quorum["replicas"]) == [1, 2, 3]
    assert [each["role"] for each in quorum["replicas"]].count("leader") == 1
    assert all(each["endpoints"][0].startswith("CONTROLLER://127.0.0.1:") for each in quorum["replicas"])
    assert f"Active controller:  {quorum['leader_id']}" in cli.ok("cluster", "quorum")
    info = cli.json("cluster", "info")
    assert info["partitions_under_min_isr"] == info["partitions_at_min_isr"] == 0
    status = cli.json("cluster", "broker", "status", "2")
    assert not status["fenced"]
    assert status["replicas"] >= 2
    assert "Unknown broker 9; the brokers are 1, 2, 3" in cli.fails("cluster", "broker", "status", "9")
    assert "is alive" in cli.fails("cluster", "broker", "unregister", "2", "--yes")


def test_kafkas_tool_follows_and_verifies_a_throttled_reassignment(cli: Cli, tmp_path: Path) -> None:
    create(cli, "moved", [1, 2], [2, 1])
    cli.ok("perf", "produce", "moved", "-n", "300", "--size", "10000", "--client", "native")
    planned = cli.run("cluster", "reassign", "plan", "--topic", "moved", "--to-brokers", "3,2")
    assert planned.exit_code == 0, planned.output
    assert "2 partitions change, 2 replicas are copied" in planned.stderr
    plan = tmp_path / "plan.json"
    plan.write_text(planned.stdout)
    targets = [each["replicas"] for each in json.loads(planned.stdout)["partitions"]]
    assert sorted(map(sorted, targets)) == [[2, 3], [2, 3]]
    before = tmp_path / "before.json"
    begun = cli.json(
        *("cluster", "reassign", "execute", str(plan), "--throttle", "2MB", "--save-current", str(before))
    )
    assert {each["state"] for each in begun["partitions"]} <= {"moving", "done"}
    assert [each["replicas"] for each in json.loads(before.read_text())["partitions"]] == [[1, 2], [2, 1]]

    def setting(*arguments: str) -> tuple[str, str] | None:
        result = cli.run("config", "describe", *arguments, "-o", "json")
        entries = [] if result.exit_code else json.loads(result.stdout)
        return (entries[0]["value"], entries[0]["source"]) if entries else None

    # Brokers apply a config a moment after the controller has stored it.
    listed = ("--topic", "moved", "follower.replication.throttled.replicas")
    rate = ("--broker", "3", "follower.replication.throttled.rate")
    until(lambda: setting(*listed) == ("0:3,1:3", "topic"), "the new replicas are not listed")
    until(lambda: setting(*rate) == ("2000000", "dynamic_broker"), "the rate is not set")
    done = cli.run("cluster", "reassign", "status", str(plan), "--wait")
    assert done.exit_code == 0, done.output
    assert "2 of 2 partitions are done" in done.stderr
    assert "Removed the throttle" in done.stderr
    until(lambda: setting(*rate) is None, "the rate is still set")
    until(lambda: setting(*listed) == ("", "default"), "the new replicas are still listed")
    until(lambda: replicas_of(cli, "moved") == targets, "replicas are not on the planned brokers")
    assert cli.ok("cluster", "reassign", "status") == "No reassignment is in progress.\n"

    topics = tmp_path / "topics.json"
    topics.write_text('{"version":1,"topics":[{"topic":"moved"}]}')
    server = ("--bootstrap-server", cli.bootstrap)
    verified = tool_output(REASSIGN_TOOL, *server, "--verify", "--reassignment-json-file", str(plan))
    assert verified.count("is completed") == 2
    generated = tool_output(
        REASSIGN_TOOL,
        *(*server, "--generate", "--topics-to-move-json-file", str(topics), "--broker-list", "1,2"),
    )
    # The other way round: a plan of Kafka's tool, from stdin.
    theirs = generated.strip().splitlines()[-1]
    moved = cli.run("cluster", "reassign", "execute", "-", "--wait", "-o", "json", stdin=theirs)
    assert moved.exit_code == 0, moved.output
    until(lambda: [set(each) for each in replicas_of(cli, "moved")] == [{1, 2}] * 2, "they have not moved")


def test_mistakes_in_plans_are_explained(cli: Cli, tmp_path: Path) -> None:
    create(cli, "mistaken", [1], [2])

    def executed(partitions: list[dict[str, Any]]) -> str:
        text = json.dumps({"version": 1, "partitions": partitions})
        result = cli.run("cluster", "reassign", "execute", "-", stdin=text)
        assert result.exit_code == 1, result.output
        return result.stderr

    assert "Unknown partition mistaken-7" in executed(
        [{"topic": "mistaken", "partition": 7, "replicas": [1]}]
    )
    output = executed(
        [
            {"topic": "mistaken", "partition": 0, "replicas": [9]},
            {"topic": "mistaken", "partition": 1, "replicas": [2]},
        ]
    )
    assert "mistaken-0" in output
    assert "INVALID_REPLICA_ASSIGNMENT" in output
    assert "Unknown broker 9" in cli.fails("cluster", "reassign", "plan", "--drain", "9")
    too_many = ("cluster", "reassign", "plan", "--topic", "mistaken", "-r", "4")
    assert "needs 4 replicas, but brokers are available for only 3" in cli.fails(*too_many)
    no_moves = cli.run("cluster", "reassign", "plan", "--topic", "mistaken", "-r", "1")
    assert (no_moves.exit_code, json.loads(no_moves.stdout)["partitions"]) == (0, [])
    assert "No partition needs to change" in no_moves.stderr
    invalid_targets = tmp_path / "astray.json"
    invalid_targets.write_text(
        '{"version":1,"partitions":[{"topic":"mistaken","partition":0,"replicas":[3]}]}'
    )
    assert "not being moved: mistaken-0" in cli.fails("cluster", "reassign", "status", str(invalid_targets))
    for wrong in (["plan"], ["plan", "-r", "2"], ["cancel"], ["status", "--wait"]):
        assert cli.run("cluster", "reassign", *wrong).exit_code == 2
    cli.ok("topic", "delete", "mistaken", "--yes")


def test_elections(cli: Cli) -> None:
    create(cli, "elected", [1, 2], [2, 1])
    swapped = {"version": 1, "partitions": [{"topic": "elected", "partition": 0, "replicas": [2, 1]}]}
    cli.ok("cluster", "reassign", "execute", "-", "--wait", stdin=json.dumps(swapped))
    results = cli.json("cluster", "elect", "preferred", "--topic", "elected")
    assert [(each["partition"], each["status"]) for each in results] == [(0, "elected"), (1, "not-needed")]
    cli.ok("cluster", "elect", "preferred", "--all")
    assert "No partition needs an election" in cli.ok("cluster", "elect", "preferred", "--all")
    assert cli.run("cluster", "elect", "unclean", "--all").exit_code == 2, "the command needs confirmation"
    results = cli.json("cluster", "elect", "unclean", "--topic", "elected:1", "--yes")
    assert [each["status"] for each in results] == ["not-needed"]
    output = cli.fails("cluster", "elect", "preferred", "--topic", "elected:5")
    assert "UNKNOWN_TOPIC_OR_PARTITION" in output
    assert cli.run("cluster", "elect", "preferred").exit_code == 2


def test_a_voter_is_removed_and_added_again(cluster: ApacheKafkaCluster, cli: Cli) -> None:
    leaving = voter_that_follows(cli)
    endpoint = f"127.0.0.1:{cluster.nodes[leaving].controller_port}"
    assert cli.run("cluster", "voter", "remove", str(leaving)).exit_code == 2, (
        "the command needs confirmation"
    )
    assert cli.ok("cluster", "voter", "remove", str(leaving), "--yes") == f"removed voter {leaving}\n"
    assert leaving not in [each["id"] for each in cli.json("cluster", "voter", "list")]
    assert "is not a voter" in cli.fails("cluster", "voter", "remove", str(leaving), "--yes")

    def observed() -> bool:
        replicas = cli.json("cluster", "quorum")["replicas"]
        return any(each["id"] == leaving and each["role"] == "observer" for each in replicas)

    until(observed, "the controller does not continue as an observer")
    added = cli.ok("cluster", "voter", "add", str(leaving), "--endpoint", endpoint)
    assert added == f"added voter {leaving} at {endpoint}\n"
    assert sorted(each["id"] for each in cli.json("cluster", "voter", "list")) == [1, 2, 3]
    assert "is already a voter" in cli.fails("cluster", "voter", "add", str(leaving), "--endpoint", endpoint)
    assert cli.ok("cluster", "voter", "list").count("CONTROLLER://") == 3


def test_a_broker_is_stopped_drained_and_unregistered(
    cluster: ApacheKafkaCluster, cli: Cli, tmp_path: Path
) -> None:
    """This is the last test of the file, because it leaves two brokers."""
    until(
        lambda: cli.run("cluster", "topics-at-risk").exit_code == 0, "partitions are at risk from the start"
    )
    unregistered = voter_that_follows(cli)
    a, b = sorted({1, 2, 3} - {unregistered})
    create(cli, "drained", [a, unregistered], [unregistered, b])
    create(cli, "wide", [a, b, unregistered])
    create(cli, "alone", [unregistered])
    create(cli, "held", [a, b])
    cli.ok("config", "set", "--topic", "drained", "min.insync.replicas=2")
    cluster.nodes[unregistered].stop()
    until(
        lambda: bool(cli.json("cluster", "broker", "status", str(unregistered))["fenced"]), "it is not fenced"
    )
    offline = ("cluster", "topics-at-risk", "--topic", "alone", "--level", "offline")
    until(lambda: cli.run(*offline).exit_code == 3, "a partition of only the stopped broker has a leader")
    at_risk = cli.run("cluster", "topics-at-risk", "-o", "json")
    assert at_risk.exit_code == 3
    found = {(each["topic"], each["partition"]): each for each in json.loads(at_risk.stdout)["partitions"]}
    assert found["alone", 0]["risk"] == "offline"
    assert found["drained", 0]["risk"] == "under-min-isr"
    assert found["wide", 0]["risk"] == "under-replicated"
    assert found["wide", 0]["missing"] == [unregistered]
    assert cli.run("cluster", "topics-at-risk", "--topic", "wide", "--level", "offline").exit_code == 0
    assert "Move them first" in cli.fails("cluster", "broker", "unregister", str(unregistered), "--yes")
    # A reassignment to a broker that is down does not complete; it can be cancelled.
    held = json.dumps({"partitions": [{"topic": "held", "partition": 0, "replicas": [unregistered, b]}]})
    plan = tmp_path / "held.json"
    plan.write_text(held)
    cli.ok("cluster", "reassign", "execute", str(plan))
    (moving,) = cli.json("cluster", "reassign", "status")["partitions"]
    assert (moving["state"], moving["target"], moving["adding"]) == (
        "moving",
        [unregistered, b],
        [unregistered],
    )
    assert cli.ok("cluster", "reassign", "cancel", str(plan)) == "cancelled held-0\n"
    assert cli.ok("cluster", "reassign", "cancel", "--all") == "No reassignment is in progress.\n"
    until(lambda: set(replicas_of(cli, "held")[0]) == {a, b}, "the cancelled move is not taken back")

    # No running broker has the records of a partition without a leader, so it cannot be copied.
    warned = cli.run("cluster", "reassign", "plan", "--drain", str(unregistered), "--topic", "alone")
    assert "alone:0 has no leader" in warned.stderr
    cli.ok("topic", "delete", "alone", "--yes")
    assert "wide-0 needs 3 replicas" in cli.fails("cluster", "reassign", "plan", "--drain", str(unregistered))
    fewer = cli.ok("cluster", "reassign", "plan", "--drain", str(unregistered), "--all-topics", "-r", "2")
    done = cli.run("cluster", "reassign", "execute", "-", "--wait", "-o", "json", stdin=fewer)
    assert done.exit_code == 0, done.output
    assert {each["state"] for each in json.loads(done.stdout)["partitions"]} == {"done"}
    until(lambda: cli.run("cluster", "topics-at-risk").exit_code == 0, "partitions are still at risk")
    assert (
        cli.ok("cluster", "broker", "unregister", str(unregistered), "--yes")
        == f"unregistered broker {unregistered}\n"
    )
    until(lambda: [each["id"] for each in cli.json("cluster", "brokers")] == [a, b], "it is still there")
