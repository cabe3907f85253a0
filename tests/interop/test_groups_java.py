"""The Java consumer and its group tools, through Apache Kafka's own command-line classes."""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_INVALID, TopicPartition

from tests.interop.conftest import TopicMaker
from tests.support.clients.librdkafka import Sent, new_reader, produce_all
from tests.support.groups.group_members import (
    Member,
    Protocol,
    Setting,
    committed,
    poll_for,
    poll_until,
    topic_partitions,
)
from tests.support.tools.java_tools import JavaTools, tool_output

pytestmark = pytest.mark.usefixtures("needs_java")

TOOLS = "org.apache.kafka.tools"
GROUPS = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
HOUR_MS = 3_600_000
ASSIGNORS = {"classic": "range", "consumer": "uniform"}
OTHER = {"classic": "consumer", "consumer": "classic"}
both_protocols = pytest.mark.parametrize("protocol", ["classic", "consumer"])


@pytest.fixture
def java() -> Iterator[JavaTools]:
    with JavaTools() as tools:
        yield tools


def table(output: str) -> list[dict[str, str]]:
    """The rows of a printed table by column name, without the lines around it."""
    lines = [line.split() for line in output.splitlines() if line.strip()]
    start = next(number for number, line in enumerate(lines) if line[0] == "GROUP")
    header = lines[start]
    return [dict(zip(header, line, strict=False)) for line in lines[start + 1 :] if len(line) > 2]


def fill(bootstrap: str, topic: str, partitions: int, per_partition: int) -> None:
    """Write records an hour apart, the newest an hour old."""
    start_ms = int(time.time() * 1000) - per_partition * HOUR_MS
    sent = [
        Sent(b"%d" % n, partition=n % partitions, timestamp_ms=start_ms + n // partitions * HOUR_MS)
        for n in range(partitions * per_partition)
    ]
    produce_all(bootstrap, topic, sent)


def commit(bootstrap: str, group: str, topic: str, offsets: list[int]) -> None:
    committed(bootstrap, group, topic)  # This returns when the coordinator is ready.
    reader = new_reader(bootstrap, {"group.id": group})
    expected = [TopicPartition(topic, partition, offset) for partition, offset in enumerate(offsets)]
    reader.commit(offsets=expected, asynchronous=False)
    reader.close()


# -- consumers


@both_protocols
def test_verifiable_consumer_beside_another_client(
    bootstrap: str, new_topic: TopicMaker, group: str, protocol: Protocol, java: JavaTools
) -> None:
    topic = new_topic(partitions=4)
    arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--group-id", group, "--verbose"]
    arguments += ["--group-protocol", protocol, "--max-messages", "200"]
    fill(bootstrap, topic, 4, 25)
    consuming = java.begin(f"{TOOLS}.VerifiableConsumer", *arguments)
    deadline = time.monotonic() + 30
    while committed(bootstrap, group, topic, 4) != [25] * 4:
        assert time.monotonic() < deadline, "the Java consumer does not commit"
        time.sleep(0.1)

    with Member(bootstrap, group, [topic], protocol) as other:
        poll_until([other], lambda: len(other.assigned) == 2)
        mine = set(other.assigned)
        fill(bootstrap, topic, 4, 25)
        poll_until([other], lambda: len(other.records) == 50)
        assert {(topic, partition) for topic, partition, _ in other.read} == mine
        fill(bootstrap, topic, 4, 25)  # the last fifty that the Java consumer waits for before it leaves
        poll_until([other], consuming.done)
        poll_until([other], lambda: other.assigned == topic_partitions(topic, range(4)))
        poll_for([other], 0.2)
        assert other.errors == []
    events = [json.loads(line) for line in consuming.result().output.splitlines()]
    names = [event["name"] for event in events]
    assert names[0] == "startup_complete"
    assert names[-1] == "shutdown_complete"
    assert all(event["success"] for event in events if event["name"] == "offsets_committed")
    read = [
        (event["topic"], event["partition"], event["offset"])
        for event in events
        if event["name"] == "record_data"
    ]
    together = read + other.read
    assert set(together) >= {(topic, partition, offset) for partition in range(4) for offset in range(75)}
    assert len(read) == 200


@both_protocols
def test_consumer_performance(bootstrap: str, new_topic: TopicMaker, group: str, protocol: Protocol) -> None:
    topic = new_topic(partitions=2)
    produce_all(bootstrap, topic, [Sent(bytes(100), partition=number % 2) for number in range(20_000)])
    arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--group", group, "--hide-header"]
    arguments += ["--num-records", "20000", "--command-property", f"group.protocol={protocol}"]

    output = tool_output(f"{TOOLS}.ConsumerPerformance", *arguments)

    (figures,) = [line.split(", ") for line in output.splitlines() if line.count(",") > 5]
    assert int(figures[4]) == 20_000


@both_protocols
def test_console_consumer_in_a_group(
    bootstrap: str, new_topic: TopicMaker, group: str, protocol: Protocol
) -> None:
    topic = new_topic()
    fill(bootstrap, topic, 1, 20)

    def consume(count: int, *more: str) -> list[str]:
        arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--group", group, *more]
        arguments += ["--max-messages", str(count), "--command-property", f"group.protocol={protocol}"]
        return tool_output(f"{TOOLS}.consumer.ConsoleConsumer", *arguments).split()

    # The group has no offsets, so it starts ten and a half hours ago.
    reset = ["--command-property", "auto.offset.reset=by_duration:PT10H30M"]
    assert consume(4, *reset) == ["10", "11", "12", "13"]
    assert committed(bootstrap, group, topic) == [14]
    assert consume(6, "--from-beginning") == [str(number) for number in range(14, 20)]


# -- the tool


@both_protocols
def test_groups_are_listed_and_described(
    bootstrap: str, new_topic: TopicMaker, group: str, protocol: Protocol
) -> None:
    topic = new_topic(partitions=3)
    fill(bootstrap, topic, 3, 10)
    commit(bootstrap, group, topic, [4, 10, 0])

    def groups(*arguments: str) -> str:
        return tool_output(GROUPS, "--bootstrap-server", bootstrap, *arguments)

    settings: dict[str, Setting] = {"client.id": "one", "enable.auto.commit": False}
    with Member(bootstrap, group, [topic], protocol, settings) as member:
        poll_until([member], lambda: len(member.assigned) == 3)
        member_id = member.consumer.memberid()

        assert group in groups("--list").split()
        listed = {row["GROUP"]: row for row in table(groups("--list", "--state", "--type"))}
        assert (listed[group]["TYPE"], listed[group]["STATE"]) == (protocol.capitalize(), "Stable")
        assert group in groups("--list", "--state", "stable,empty")
        assert group not in groups("--list", "--type", OTHER[protocol])

        offsets = table(groups("--describe", "--group", group, "--offsets"))
        assert {
            (int(row["PARTITION"]), row["CURRENT-OFFSET"], row["LOG-END-OFFSET"], row["LAG"])
            for row in offsets
        } == {(0, "4", "10", "6"), (1, "10", "10", "0"), (2, "0", "10", "10")}
        assert {(row["CONSUMER-ID"], row["HOST"], row["CLIENT-ID"]) for row in offsets} == {
            (member_id, "/127.0.0.1", "one")
        }

        (row,) = table(groups("--describe", "--group", group, "--members"))
        assert (row["CONSUMER-ID"], row["#PARTITIONS"]) == (member_id, "3")
        verbose = groups("--describe", "--group", group, "--members", "--verbose")
        (row,) = table(verbose)
        assert row["CURRENT-EPOCH"] == row["TARGET-EPOCH"]
        assert row["CURRENT-ASSIGNMENT"] == f"{topic}:0,1,2"

        state = groups("--describe", "--group", group, "--state", "--verbose").split()
        epoch = "-" if protocol == "classic" else row["CURRENT-EPOCH"]
        assert state[-6:] == ["(1)", ASSIGNORS[protocol], "Stable", epoch, epoch, "1"]
        assert bootstrap in state
        everyone = groups("--describe", "--all-groups", "--members")
        assert member_id in everyone

        assert "GroupNotEmptyException" in groups("--delete", "--group", group)
        in_use = groups("--delete-offsets", "--group", group, "--topic", topic)
        assert in_use.count("GroupSubscribedToTopicException") == 3

    groups("--delete-offsets", "--group", group, "--topic", f"{topic}:1")
    assert committed(bootstrap, group, topic, 3) == [4, OFFSET_INVALID, 0]
    offsets = table(groups("--describe", "--group", group))
    assert {(row["PARTITION"], row["LAG"], row["CONSUMER-ID"]) for row in offsets} == {
        ("0", "6", "-"),
        ("2", "10", "-"),
    }
    assert "was successful" in groups("--delete", "--group", group)
    assert group not in groups("--list").split()
    assert "GroupIdNotFoundException" in groups("--delete", "--group", group)


def test_offsets_are_reset_in_every_way(
    bootstrap: str, new_topic: TopicMaker, group: str, tmp_path: Path
) -> None:
    topic, other = new_topic(partitions=2), new_topic()
    fill(bootstrap, topic, 2, 10)
    fill(bootstrap, other, 1, 10)
    commit(bootstrap, group, topic, [4, 6])
    commit(bootstrap, group, other, [5])

    def reset(*arguments: str, scope: tuple[str, ...] = ("--topic", topic)) -> list[int]:
        command = ["--bootstrap-server", bootstrap, "--group", group, "--reset-offsets", *scope, *arguments]
        rows = table(tool_output(GROUPS, *command))
        return [
            int(row["NEW-OFFSET"]) for row in sorted(rows, key=lambda row: (row["TOPIC"], row["PARTITION"]))
        ]

    def now() -> tuple[list[int], list[int]]:
        return committed(bootstrap, group, topic, 2), committed(bootstrap, group, other)

    ago = time.gmtime(time.time() - 3.5 * 3600)
    scenarios: list[tuple[list[str], list[int]]] = [
        (["--to-earliest"], [0, 0]),
        (["--to-latest"], [10, 10]),
        (["--to-current"], [4, 6]),
        (["--to-offset", "3"], [3, 3]),
        (["--to-offset", "99"], [10, 10]),
        (["--shift-by", "3"], [7, 9]),
        (["--shift-by", "-5"], [0, 1]),
        (["--by-duration", "PT2H30M"], [8, 8]),
        (["--to-datetime", time.strftime("%Y-%m-%dT%H:%M:%S.000", ago)], [7, 7]),
    ]
    for arguments, expected in scenarios:
        assert reset(*arguments, "--dry-run") == expected, arguments
    assert now() == ([4, 6], [5])

    assert reset("--to-offset", "2", "--execute", scope=("--topic", f"{topic}:1")) == [2]
    assert now() == ([4, 2], [5])
    assert reset("--shift-by", "1", "--execute", scope=("--all-topics",)) == [5, 3, 6]
    assert now() == ([5, 3], [6])

    command = ["--bootstrap-server", bootstrap, "--group", group, "--reset-offsets"]
    exported = tool_output(GROUPS, *command, "--topic", topic, "--to-latest", "--export", "--dry-run")
    plan = tmp_path / "plan.csv"
    plan.write_text(exported)
    assert sorted(csv.reader(exported.split())) == [[topic, "0", "10"], [topic, "1", "10"]]
    assert reset("--from-file", str(plan), "--execute", scope=()) == [10, 10]
    assert now() == ([10, 10], [6])

    with Member(bootstrap, group, [topic]) as member:
        poll_until([member], lambda: bool(member.assigned))
        rejected = tool_output(GROUPS, *command, "--topic", topic, "--to-earliest", "--execute")
        assert "inactive" in rejected
    assert now() == ([10, 10], [6])
