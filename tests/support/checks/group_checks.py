"""Checks of ``ruslo group`` with any broker: the same tests for Ruslo and for Apache Kafka."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from ruslo.client.admin.admin import Admin
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from ruslo.protocol.messages.leave_group_response import LeaveGroupResponse
from tests.support.checks.cli_checks import Cli
from tests.support.clients.librdkafka import Settings, close_member, receive
from tests.support.groups.group_members import CLASSIC_PACE

PROTOCOLS = ["classic", "consumer"]
START_MS = 1_700_000_000_000
KEPT = ("-c", "retention.ms=-1")
"""For topics with records that are older than the default retention."""
_group_numbers = itertools.count()


def new_group() -> str:
    return f"group-{next(_group_numbers)}"


@contextmanager
def member(
    cli: Cli, group: str, topics: Sequence[str], protocol: str, settings: Settings | None = None
) -> Iterator[Consumer]:
    """A group member without automatic commits, which leaves the group at the end."""
    consumer = Consumer(
        {
            "bootstrap.servers": cli.bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "client.id": f"client-of-{group}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **(CLASSIC_PACE if protocol == "classic" else {}),
            **(settings or {}),
        }
    )
    try:
        consumer.subscribe(list(topics))
        yield consumer
    finally:
        close_member(consumer)


def poll_until(consumers: Sequence[Consumer], done: Callable[[], bool], timeout_s: float = 60) -> None:
    """Poll until a condition holds: rebalances happen inside poll."""
    deadline = time.monotonic() + timeout_s
    while not done():
        assert time.monotonic() < deadline, [consumer.assignment() for consumer in consumers]
        for consumer in consumers:
            consumer.poll(0.05)


def until(cli: Cli, arguments: Sequence[str], done: Callable[[Any], bool], timeout_s: float = 60) -> Any:
    """Repeat a query until its result matches."""
    deadline = time.monotonic() + timeout_s
    while True:
        response = cli.json(*arguments)
        if done(response):
            return response
        assert time.monotonic() < deadline, response
        time.sleep(0.05)


def timed_records(cli: Cli, topic: str, seconds: Sequence[float], partition: int = 0) -> None:
    lines = [
        json.dumps({"value": "v", "partition": partition, "timestamp": START_MS + int(second * 1000)})
        for second in seconds
    ]
    cli.ok("produce", topic, "--json", stdin="".join(f"{line}\n" for line in lines))


def committed(cli: Cli, group: str, topic: str) -> list[int | None]:
    """The committed offsets of the group, by partition."""
    (described,) = cli.json("group", "describe", group)
    return [row["committed_offset"] for row in described["partitions"] if row["topic"] == topic]


class GroupChecks:
    """A subclass provides the fixture ``bootstrap``."""

    @pytest.fixture
    def cli(self, bootstrap: str) -> Cli:
        return Cli(bootstrap)

    @pytest.fixture
    def topic(self, cli: Cli) -> str:
        """Two partitions with ten records each, one every ten seconds."""
        topic = f"group-topic-{next(_group_numbers)}"
        cli.ok("topic", "create", topic, "-p", "2", *KEPT)
        for partition in range(2):
            timed_records(cli, topic, [10 * number for number in range(10)], partition)
        return topic

    @pytest.fixture
    def idle_group(self, cli: Cli, topic: str) -> str:
        """A group without members that has committed offset 4 in both partitions."""
        group = new_group()
        cli.ok("group", "reset-offsets", group, "--topic", topic, "--to-offset", "4", "--execute")
        return group

    # -- groups with members

    @pytest.mark.parametrize("protocol", PROTOCOLS)
    def test_a_group_with_members(self, cli: Cli, topic: str, protocol: str) -> None:
        group = new_group()
        with member(cli, group, [topic], protocol) as consumer:
            last = receive(consumer, 20)[-1]
            consumer.commit(message=last, asynchronous=False)

            listed = {row["group_id"]: row for row in cli.json("group", "list", "--lag")}
            assert listed[group] == {
                "group_id": group,
                "type": protocol,
                "state": "Stable",
                "protocol": "consumer",
                "members": 1,
                "coordinator": 1,
                "lag": 0,
            }
            (described,) = cli.json("group", "describe", group)
            rows = described.pop("partitions")
            assert described == {
                "group_id": group,
                "type": protocol,
                "state": "Stable",
                "protocol": "consumer",
                "assignor": "range" if protocol == "classic" else "uniform",
                "group_epoch": None if protocol == "classic" else described["group_epoch"],
                "assignment_epoch": described["group_epoch"],
                "coordinator": 1,
                "member_count": 1,
                "assignor_error": None,
                "lag": 0,
                "lag_seconds": 0.0,
            }
            committed, other = sorted(rows, key=lambda row: row["partition"] != last.partition())
            assert (committed["committed_offset"], committed["end_offset"]) == (10, 10)
            assert (committed["lag"], committed["lag_seconds"]) == (0, 0.0)
            assert (other["committed_offset"], other["end_offset"], other["lag"]) == (None, 10, None)
            (info,) = cli.json("group", "members", group)["members"]
            for row in rows:
                assert row["member_id"] == info["member_id"]
                assert (row["client_id"], row["host"]) == (f"client-of-{group}", "127.0.0.1")
            assert info["assignment"] == {topic: [0, 1]}
            assert info["subscribed_topics"] == [topic]
            assert info["protocol"] == protocol
            if protocol == "consumer":
                assert info["target_assignment"] == {topic: [0, 1]}
                assert info["epoch"] == described["group_epoch"] > 0
            else:
                assert (info["target_assignment"], info["epoch"]) == (None, None)

    @pytest.mark.parametrize("protocol", PROTOCOLS)
    def test_members_share_the_partitions(self, cli: Cli, topic: str, protocol: str) -> None:
        group = new_group()
        with ExitStack() as stack:
            consumers = [
                stack.enter_context(
                    member(cli, group, [topic], protocol, {"group.instance.id": f"instance-{n}"})
                )
                for n in range(2)
            ]
            poll_until(consumers, lambda: [len(c.assignment()) for c in consumers] == [1, 1])
            found = until(cli, ["group", "members", group], lambda response: response["state"] == "Stable")
            by_instance = {info["instance_id"]: info["assignment"] for info in found["members"]}
            assert by_instance == {
                f"instance-{n}": {topic: [consumer.assignment()[0].partition]}
                for n, consumer in enumerate(consumers)
            }
            text = cli.ok("group", "members", group)
            assert all(f"instance-{n}" in text for n in range(2))
            assert f"{topic}:0" in text
            described = cli.ok("group", "describe", group)
            assert described.splitlines()[0].split() == ["Group:", group]
            table = described[described.index("TOPIC ") :].splitlines()
            assert table[0].split()[:6] == ["TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "SECONDS"]
            assert [line.split()[:6] for line in table[1:]] == [
                [topic, str(partition), "-", "10", "-", "-"] for partition in range(2)
            ]

    def test_a_regex_subscription_is_resolved_by_the_coordinator(self, cli: Cli, topic: str) -> None:
        group = new_group()
        with member(cli, group, [f"^{topic}$"], "consumer") as consumer:
            poll_until([consumer], lambda: len(consumer.assignment()) == 2)
            (info,) = until(
                cli, ["group", "members", group], lambda response: response["members"][0]["assignment"] != {}
            )["members"]
            assert topic in info["subscribed_regex"]
            assert info["subscribed_topics"] == []
            assert info["assignment"] == {topic: [0, 1]}
            assert f"/{info['subscribed_regex']}/" in cli.ok("group", "members", group)

    @pytest.mark.parametrize("protocol", PROTOCOLS)
    def test_offsets_of_a_group_with_members_cannot_be_reset(
        self, cli: Cli, topic: str, protocol: str
    ) -> None:
        group = new_group()
        with member(cli, group, [topic], protocol) as consumer:
            consumer.commit(message=receive(consumer, 20)[-1], asynchronous=False)
            reset = ("group", "reset-offsets", group, "--topic", topic, "--to-earliest")
            plan = cli.run(*reset)
            assert plan.exit_code == 0
            assert f"Group '{group}' is Stable with 1 member. Stop its consumers" in plan.stderr
            refused = cli.run(*reset, "--execute")
            assert refused.exit_code == 1
            assert f"see 'ruslo group members {group}'" in refused.stderr
            assert refused.stdout == ""
            executed = cli.run(*reset, "--execute", "-o", "json")
            assert (executed.exit_code, json.loads(executed.stdout)["executed"]) == (1, False)
            assert "GROUP_SUBSCRIBED_TO_TOPIC" in cli.fails(
                "group", "delete-offsets", group, "--topic", topic, "-y"
            )
            assert "NON_EMPTY_GROUP" in cli.fails("group", "delete", group, "--yes")
            assert 10 in committed(cli, group, topic)
        until(cli, ["group", "describe", group], lambda response: response[0]["state"] == "Empty")
        cli.ok(*reset, "--execute")
        assert committed(cli, group, topic) == [0, 0]
        with member(cli, group, [topic], protocol) as consumer:
            assert len(receive(consumer, 20)) == 20

    @pytest.mark.parametrize("protocol", PROTOCOLS)
    def test_a_static_member_is_removed_by_its_instance(self, cli: Cli, topic: str, protocol: str) -> None:
        group = new_group()
        with member(cli, group, [topic], protocol, {"group.instance.id": "stuck"}) as consumer:
            poll_until([consumer], lambda: len(consumer.assignment()) == 2)
        # It has closed, but a static member stays in the group until its session times out.
        assert cli.json("group", "members", group)["member_count"] == 1

        async def remove() -> list[object]:
            async with Admin(cli.bootstrap) as admin:
                members = [MemberIdentity(group_instance_id=name) for name in ("stuck", "missing")]
                request = LeaveGroupRequest(group_id=group, members=members)
                coordinator = await admin.groups.coordinators.find(group)
                found = await admin.cluster.node(coordinator, request, LeaveGroupResponse, min_version=3)
                return [each.error_code for each in found.members]

        assert asyncio.run(remove()) == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
        found = until(cli, ["group", "members", group], lambda response: response["member_count"] == 0)
        assert found["state"] == "Empty"

    # -- lists

    def test_filters_of_list(self, cli: Cli, topic: str, idle_group: str) -> None:
        live = new_group()

        def names(*options: str) -> set[str]:
            return {row["group_id"] for row in cli.json("group", "list", *options)} & {live, idle_group}

        with member(cli, live, [topic], "consumer") as consumer:
            poll_until([consumer], lambda: len(consumer.assignment()) == 2)
            until(cli, ["group", "describe", live], lambda response: response[0]["state"] == "Stable")
            assert names() == {live, idle_group}
            assert names("--state", "stable") == {live}
            assert names("--state", "Empty") == {idle_group}
            assert names("--state", "Empty", "--state", "stable") == {live, idle_group}
            assert names("--type", "classic") == {idle_group}
            assert names("--type", "consumer", "--state", "stable") == {live}
            assert names("--type", "share") == set()
        text = cli.ok("group", "list", "--lag").splitlines()
        assert text[0].split() == ["GROUP", "TYPE", "STATE", "PROTOCOL", "MEMBERS", "COORDINATOR", "LAG"]
        (line,) = [line.split() for line in text if line.startswith(f"{idle_group} ")]
        assert line == [idle_group, "classic", "Empty", "-", "0", "1", "12"]

    def test_groups_that_do_not_exist(self, cli: Cli) -> None:
        for arguments in (["describe", "none-such"], ["members", "none-such"], ["delete", "none-such", "-y"]):
            output = cli.fails("group", *arguments)
            assert "group 'none-such' does not exist (GROUP_ID_NOT_FOUND). Run 'ruslo group list'" in output
        assert cli.ok("group", "delete", "none-such", "-y", "--if-exists") == "absent none-such\n"
        assert "has no committed offsets" in cli.fails(
            "group", "reset-offsets", "none-such", "--all-topics", "--to-latest"
        )

    # -- lag

    def test_lag_in_records_and_seconds(self, cli: Cli, topic: str, idle_group: str) -> None:
        (described,) = cli.json("group", "describe", idle_group)
        assert (described["state"], described["member_count"]) == ("Empty", 0)
        assert [(row["lag"], row["lag_seconds"]) for row in described["partitions"]] == [(6, 50.0), (6, 50.0)]
        assert (described["lag"], described["lag_seconds"]) == (12, 50.0)
        timed_records(cli, topic, [3600], partition=1)
        (described,) = cli.json("group", "describe", idle_group)
        assert [(row["lag"], row["lag_seconds"]) for row in described["partitions"]] == [
            (6, 50.0),
            (7, 3560.0),
        ]
        assert "13 records, up to 3560.0 seconds" in cli.ok("group", "describe", idle_group)

    def test_lag_excludes_deleted_records(self, cli: Cli, topic: str, idle_group: str) -> None:
        cli.ok("topic", "delete-records", topic, "-p", "0", "--before", "8", "--yes")
        cli.ok("topic", "delete-records", topic, "-p", "1", "--before", "end", "--yes")
        (described,) = cli.json("group", "describe", idle_group)
        assert [(row["lag"], row["lag_seconds"]) for row in described["partitions"]] == [(6, 10.0), (6, 0.0)]

    def test_lag_with_append_time(self, cli: Cli) -> None:
        group = new_group()
        topic = cli.new_topic("-c", "message.timestamp.type=LogAppendTime")
        timed_records(cli, topic, [0])
        timed_records(cli, topic, [1_000_000])
        cli.ok("group", "reset-offsets", group, "--topic", topic, "--to-earliest", "--execute")
        (described,) = cli.json("group", "describe", group)
        assert described["lag"] == 2
        assert 0 <= described["lag_seconds"] < 600

    # -- resets

    def test_all_reset_targets(self, cli: Cli, topic: str, idle_group: str) -> None:
        def reset(*options: str) -> list[int | None]:
            report = cli.json("group", "reset-offsets", idle_group, *options, "--execute")
            assert report["executed"]
            offsets = committed(cli, idle_group, topic)
            assert offsets == [row["new_offset"] for row in report["partitions"]] or "--topic" in options
            return offsets

        assert reset("--all-topics", "--to-earliest") == [0, 0]
        assert reset("--all-topics", "--to-latest") == [10, 10]
        assert reset("--all-topics", "--shift-by", "-3") == [7, 7]
        assert reset("--topic", f"{topic}:1", "--shift-by", "2") == [7, 9]
        assert reset("--all-topics", "--to-current") == [7, 9]
        assert reset("--all-topics", "--shift-by", "100") == [10, 10]
        assert reset("--all-topics", "--to-offset", "3") == [3, 3]
        assert reset("--topic", f"{topic}:0", "--to-timestamp", str(START_MS + 45_000)) == [5, 3]
        assert reset("--topic", topic, "--to-datetime", "2023-11-14T22:14:00Z") == [4, 4]
        assert reset("--topic", f"{topic}:0-1", "--to-datetime", "2033-01-01") == [10, 10]
        assert reset("--topic", topic, "--by-duration", "P36500D") == [0, 0]
        assert reset("--topic", topic, "--by-duration", "1h") == [10, 10]

    def test_a_plan_changes_nothing(self, cli: Cli, topic: str, idle_group: str) -> None:
        reset = ("group", "reset-offsets", idle_group, "--topic", topic)
        plan = cli.json(*reset, "--to-offset", "99")
        assert plan == {
            "group_id": idle_group,
            "state": "Empty",
            "executed": False,
            "partitions": [
                {
                    "topic": topic,
                    "partition": partition,
                    "current_offset": 4,
                    "new_offset": 10,
                    "end_offset": 10,
                    "skipped": 6,
                    "replayed": 0,
                    "wanted_offset": 99,
                    "error": None,
                }
                for partition in range(2)
            ],
        }
        shown = cli.run(*reset, "--to-earliest")
        assert "Add --execute" in shown.stderr
        assert [line.split() for line in shown.stdout.splitlines()] == [
            ["TOPIC", "PARTITION", "CURRENT", "NEW", "END", "SKIPPED", "REPLAYED", "NOTE"],
            [topic, "0", "4", "0", "10", "0", "4", "-"],
            [topic, "1", "4", "0", "10", "0", "4", "-"],
        ]
        assert committed(cli, idle_group, topic) == [4, 4]

    def test_a_reset_can_create_a_group(self, cli: Cli, topic: str) -> None:
        group = new_group()
        plan = cli.json("group", "reset-offsets", group, "--topic", topic, "--to-latest", "--execute")
        assert plan["state"] is None
        assert [row["current_offset"] for row in plan["partitions"]] == [None, None]
        assert committed(cli, group, topic) == [10, 10]
        with member(cli, group, [topic], "classic") as consumer:
            poll_until([consumer], lambda: len(consumer.assignment()) == 2)
            timed_records(cli, topic, [100])
            assert receive(consumer, 1)[0].offset() == 10

    def test_mistakes_are_explained(self, cli: Cli, topic: str, idle_group: str) -> None:
        reset = ("group", "reset-offsets", idle_group)
        assert "topic 'none-such' does not exist" in cli.fails(*reset, "--topic", "none-such", "--to-latest")
        assert f"partition {topic}-7 does not exist" in cli.fails(
            *reset, "--topic", f"{topic}:7", "--to-latest"
        )
        other = cli.new_topic()
        output = cli.fails(*reset, "--topic", other, "--shift-by", "1")
        assert f"{other}-0 has no committed offset to shift" in output

    @pytest.mark.parametrize("form", ["text", "json"])
    def test_offsets_round_trip_through_a_file(
        self, cli: Cli, topic: str, idle_group: str, form: str, tmp_path: Path
    ) -> None:
        reset = ("group", "reset-offsets", idle_group)
        cli.ok(*reset, "--topic", f"{topic}:1", "--to-offset", "6", "--execute")
        exported = cli.ok(*reset, "--all-topics", "--to-current", "--export", "-o", form)
        if form == "text":
            assert exported == f"{topic},0,4\n{topic},1,6\n"
        saved = tmp_path / "offsets"
        saved.write_text(exported)
        cli.ok(*reset, "--all-topics", "--to-earliest", "--execute")
        assert committed(cli, idle_group, topic) == [0, 0]
        cli.ok(*reset, "--from-file", str(saved), "--execute")
        assert committed(cli, idle_group, topic) == [4, 6]

    def test_offsets_of_a_deleted_topic(self, cli: Cli, topic: str) -> None:
        # Brokers may delete the offsets of a deleted topic at once, later, or never.
        group, doomed = new_group(), cli.new_topic()
        scope = ("--topic", topic, "--topic", doomed)
        cli.ok("group", "reset-offsets", group, *scope, "--to-latest", "--execute")
        cli.ok("topic", "delete", doomed, "--yes")
        until(cli, ["topic", "list"], lambda topics: doomed not in {topic["name"] for topic in topics})
        (described,) = cli.json("group", "describe", group)
        for row in described["partitions"]:
            if row["topic"] == doomed:
                assert (row["end_offset"], row["lag"], row["lag_seconds"]) == (None, None, None)
        assert cli.json("group", "list", "--lag")
        cli.ok("group", "reset-offsets", group, "--all-topics", "--to-earliest", "--execute")
        assert committed(cli, group, topic) == [0, 0]

    # -- deleting

    def test_delete_offsets(self, cli: Cli, topic: str, idle_group: str) -> None:
        delete = ("group", "delete-offsets", idle_group)
        assert cli.ok(*delete, "--topic", f"{topic}:1", "--yes") == (
            f"deleted offsets of {idle_group}: {topic}:1\n"
        )
        assert committed(cli, idle_group, topic) == [4]
        assert "has no committed offset for" in cli.fails(*delete, "--topic", f"{topic}:1", "--yes")
        (row,) = cli.json(*delete, "--all-topics", "--yes")
        assert row == {"topic": topic, "partition": 0, "status": "deleted", "error": None}

    def test_delete(self, cli: Cli, idle_group: str) -> None:
        assert cli.run("group", "delete", idle_group).exit_code == 2
        result = cli.run("group", "delete", idle_group, "none-such", "--yes", "-o", "json")
        assert result.exit_code == 1
        assert json.loads(result.stdout) == [
            {"group_id": idle_group, "status": "deleted", "error": None},
            {"group_id": "none-such", "status": "failed", "error": "GROUP_ID_NOT_FOUND"},
        ]
        assert "does not exist" in cli.fails("group", "describe", idle_group)

    # -- settings

    def test_configs_of_a_group(self, cli: Cli) -> None:
        group, key = new_group(), "consumer.session.timeout.ms"
        cli.ok("config", "set", "--group", group, f"{key}=50000")
        until(
            cli,
            ["config", "describe", "--group", group, key],
            lambda entries: [(e["value"], e["source"]) for e in entries] == [("50000", "group")],
        )
        cli.ok("config", "unset", "--group", group, key)
        until(
            cli,
            ["config", "describe", "--group", group, key],
            lambda entries: [e["source"] for e in entries] == ["default"],
        )
        assert "INVALID_CONFIG" in cli.fails("config", "set", "--group", group, "no.such.key=1")
