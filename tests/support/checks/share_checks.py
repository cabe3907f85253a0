"""Checks of ``ruslo share`` with any broker: the same tests for Ruslo and for Apache Kafka."""

from __future__ import annotations

import signal
import subprocess
import uuid
from typing import Any, NamedTuple

import pytest

from ruslo.client.share.share_consumer import ShareConsumer
from tests.support.checks.cli_checks import Cli
from tests.support.checks.group_checks import until

RECORDS = 8
SHOWN = ("-f", r"%o:%d ")
"""Offset and delivery count of each record."""


class Queue(NamedTuple):
    """A topic with records and a share group that starts at its first one."""

    topic: str
    group: str


def new_queue(cli: Cli, partitions: int = 1, records: int = RECORDS) -> Queue:
    topic = cli.new_topic("-p", str(partitions))
    group = f"queue-{uuid.uuid4().hex[:8]}"
    cli.ok("produce", topic, "-p", "0", stdin="".join(f"v{number}\n" for number in range(records)))
    cli.ok("config", "set", "--group", group, "share.auto.offset.reset=earliest")
    cli.wait_for_setting(("--group", group), "share.auto.offset.reset", "earliest", "group")
    return Queue(topic, group)


def consume(cli: Cli, queue: Queue, *options: str, stdin: str = "") -> str:
    return cli.ok("share", "consume", queue.topic, "-g", queue.group, *options, stdin=stdin)


def joined(cli: Cli, queue: Queue) -> ShareConsumer[bytes | None, bytes | None]:
    member = ShareConsumer[bytes | None, bytes | None](
        {
            "bootstrap.servers": cli.bootstrap,
            "group.id": queue.group,
            "client.id": "packer",
            "share.acknowledgement.mode": "explicit",
            "share.acquire.mode": "record_limit",
            "max.poll.records": 2,
        }
    )
    member.subscribe([queue.topic])
    return member


class ShareChecks:
    """A subclass provides the fixture ``bootstrap``."""

    @pytest.fixture
    def cli(self, bootstrap: str) -> Cli:
        return Cli(bootstrap)

    @pytest.fixture
    def queue(self, cli: Cli) -> Queue:
        return new_queue(cli)

    @pytest.fixture
    def used(self, cli: Cli) -> Queue:
        """The first three records are accepted, and the consumer has left."""
        queue = new_queue(cli)
        consume(cli, queue, "-n", "3")
        until(cli, ["share", "offsets", queue.group], lambda rows: rows[0]["lag"] == RECORDS - 3)
        return queue

    # -- consume

    def test_consume_accepts_what_it_prints(self, cli: Cli, queue: Queue) -> None:
        assert consume(cli, queue, "-n", "3", "-f", r"%t[%p]@%o %d %s\n") == "".join(
            f"{queue.topic}[0]@{offset} 1 v{offset}\n" for offset in range(3)
        )
        assert consume(cli, queue, "-n", "2", *SHOWN) == "3:1 4:1 "
        (row,) = until(cli, ["share", "offsets", queue.group], lambda rows: rows[0]["lag"] == RECORDS - 5)
        assert row.pop("start_offset") <= 5  # brokers store it with a later write
        assert row == {
            "topic": queue.topic,
            "partition": 0,
            "end_offset": RECORDS,
            "lag": RECORDS - 5,
            "error": None,
        }

    def test_released_records_are_delivered_again_and_rejected_ones_are_not(
        self, cli: Cli, queue: Queue
    ) -> None:
        assert consume(cli, queue, "-n", "2", "--acknowledge", "release", *SHOWN) == "0:1 1:1 "
        assert consume(cli, queue, "-n", "2", "--acknowledge", "reject", *SHOWN) == "0:2 1:2 "
        assert consume(cli, queue, "-n", "1", *SHOWN) == "2:1 "

    def test_decisions_about_single_records(self, cli: Cli, queue: Queue) -> None:
        # Accept 0, renew and reject 1, release 2 and get it again, then quit at it.
        assert (
            consume(cli, queue, "-a", "ask", *SHOWN, stdin="a\nrenew\nj\nwhat\nr\nq\n") == "0:1 1:1 2:1 2:2 "
        )
        assert consume(cli, queue, "-n", "2", *SHOWN) == "2:3 3:1 "

    def test_consume_ends_when_no_record_arrives(self, cli: Cli, queue: Queue) -> None:
        result = cli.run("share", "consume", queue.topic, "-g", queue.group, "--timeout", "3s", "-o", "json")
        assert result.exit_code == 0
        assert len(result.stdout.splitlines()) == RECORDS
        assert '"delivery_count":1' in result.stdout

    @pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
    def test_a_command_that_is_stopped_leaves_the_group(
        self, cli: Cli, queue: Queue, number: signal.Signals, code: int
    ) -> None:
        arguments = ("share", "consume", queue.topic, "-g", queue.group, "-a", "release", "-f", r"%o\n")
        process = cli.process(*arguments, stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == b"0\n"
        process.send_signal(number)
        process.send_signal(number)  # as a shell may do
        process.communicate(timeout=60)
        assert process.returncode == code
        (group,) = (row for row in cli.json("share", "list") if row["group_id"] == queue.group)
        assert group["members"] == 0
        assert consume(cli, queue, "-n", "1", *SHOWN) == "0:2 "

    # -- records by hand

    def test_reject_archives_exactly_the_named_records(self, cli: Cli, used: Queue) -> None:
        records = [f"{used.topic}:0@4-5"]
        result = cli.run("share", "reject", used.group, *records, "--yes")
        assert result.exit_code == 0, result.output
        assert result.stdout == "".join(
            f"rejected {used.topic}-0 at offset {offset} (delivery 1)\n" for offset in (4, 5)
        )
        assert f"1 other record of {used.topic}-0 counted one more delivery." in result.stderr
        assert consume(cli, used, "-n", "3", *SHOWN) == "3:2 6:1 7:1 "

    def test_release_shows_delivery_counts(self, cli: Cli, used: Queue) -> None:
        rows = cli.json("share", "release", used.group, f"{used.topic}:0@4", "--yes")
        assert [(row["offset"], row["status"], row["delivery_count"]) for row in rows] == [
            (3, "passed", 1),
            (4, "released", 1),
        ]
        assert consume(cli, used, "-n", "3", *SHOWN) == "3:2 4:2 5:1 "

    def test_records_that_a_consumer_holds_are_not_available(self, cli: Cli, used: Queue) -> None:
        with joined(cli, used) as member:
            held = member.poll(30)
            assert [record.offset for record in held] == [3, 4]
            result = cli.run(
                "share", "reject", used.group, f"{used.topic}:0@1", f"{used.topic}:0@4-5", "--yes"
            )
            assert result.exit_code == 1
            assert result.stdout == f"rejected {used.topic}-0 at offset 5 (delivery 1)\n"
            for offset in (1, 4):
                assert f"{used.topic}-0 at offset {offset} is not available" in result.stderr
            for record in held:
                record.accept()
            assert list(member.commit().values()) == [None]
        assert consume(cli, used, "-n", "1", *SHOWN) == "6:1 "

    def test_records_at_the_delivery_limit_are_archived(self, cli: Cli) -> None:
        queue = new_queue(cli)
        cli.ok("config", "set", "--group", queue.group, "share.delivery.count.limit=2")
        cli.wait_for_setting(("--group", queue.group), "share.delivery.count.limit", "2", "group")
        assert consume(cli, queue, "-n", "1", "-a", "release", *SHOWN) == "0:1 "
        result = cli.run("share", "reject", queue.group, f"{queue.topic}:0@1", "--yes")
        assert result.exit_code == 0, result.output
        assert f"Archived in {queue.topic}-0, as the delivery limit is reached: 0" in result.stderr
        assert consume(cli, queue, "-n", "1", *SHOWN) == "2:1 "

    def test_records_that_the_log_does_not_have(self, cli: Cli, used: Queue) -> None:
        output = cli.fails("share", "reject", used.group, f"{used.topic}:0@3", f"{used.topic}:0@99", "--yes")
        assert f"{used.topic}-0 has no offset 99: it has offsets 0 to 7" in output
        assert consume(cli, used, "-n", "1", *SHOWN) == "3:1 "  # nothing was acquired

    # -- views

    def test_describe(self, cli: Cli) -> None:
        queue = new_queue(cli, partitions=2)
        with joined(cli, queue) as member:
            for record in member.poll(30):
                record.accept()
            assert list(member.commit().values()) == [None]

            def is_settled(views: Any) -> bool:
                return len(views[0]["partitions"]) == 2 and views[0]["lag"] == RECORDS - 2

            (view,) = until(cli, ["share", "describe", queue.group], is_settled)
            (found,) = view["members"]
            assert (view["type"], view["state"], view["member_count"]) == ("share", "Stable", 1)
            assert (found["client_id"], found["subscribed_topics"]) == ("packer", [queue.topic])
            assert found["assignment"] == {queue.topic: [0, 1]}
            first = view["partitions"][0]
            assert (first["end_offset"], first["lag"]) == (RECORDS, RECORDS - 2)
            assert first["members"] == [found["member_id"]]
            text = cli.ok("share", "describe", queue.group)
            assert f"{RECORDS - 2} records" in text
            assert f"{queue.topic}:0-1" in text
            self.check_while_active(cli, queue)

    def check_while_active(self, cli: Cli, queue: Queue) -> None:
        """A group with members keeps its offsets."""
        reset = ("share", "reset-offsets", queue.group, "--all-topics", "--to-earliest")
        result = cli.run(*reset)
        assert result.exit_code == 0
        assert f"{queue.group!r} is Stable with 1 member" in result.stderr
        assert "only while the group has no members" in cli.fails(*reset, "--execute")
        assert "NON_EMPTY_GROUP" in cli.fails("share", "delete", queue.group, "--yes")
        assert "NON_EMPTY_GROUP" in cli.fails("share", "delete-offsets", queue.group, "--all-topics", "--yes")

    def test_list(self, cli: Cli, used: Queue) -> None:
        rows = {row["group_id"]: row for row in cli.json("share", "list", "--lag", "--state", "empty")}
        assert (rows[used.group]["type"], rows[used.group]["members"]) == ("share", 0)
        assert f"{used.group}  share" in cli.ok("group", "list", "--type", "share")

    def test_config(self, cli: Cli, queue: Queue) -> None:
        found = {row["name"]: row for row in cli.json("share", "config", queue.group)}
        assert found["share.auto.offset.reset"] == {
            "name": "share.auto.offset.reset",
            "value": "earliest",
            "source": "group",
        }
        assert "consumer.session.timeout.ms" not in found

    # -- offsets

    def test_reset_delivers_records_again(self, cli: Cli, used: Queue) -> None:
        reset = ("share", "reset-offsets", used.group, "--topic", used.topic)
        (move,) = cli.json(*reset, "--to-earliest")["partitions"]
        assert (move["new_offset"], move["replayed"]) == (0, move["current_offset"])
        assert consume(cli, used, "-n", "1", *SHOWN) == "3:1 "  # only planned
        cli.ok(*reset, "--to-offset", "1", "--execute")
        assert consume(cli, used, "-n", "3", *SHOWN) == "1:1 2:1 3:1 "
        cli.ok(*reset, "--to-latest", "--execute")
        (row,) = cli.json("share", "offsets", used.group)
        assert row["start_offset"] == RECORDS

    def test_reset_creates_a_group(self, cli: Cli) -> None:
        topic, group = cli.new_topic(), f"queue-{uuid.uuid4().hex[:8]}"
        cli.ok("produce", topic, stdin="a\nb\nc\n")
        cli.ok("share", "reset-offsets", group, "--topic", topic, "--to-offset", "1", "--execute")
        assert consume(cli, Queue(topic, group), "-n", "2") == "b\nc\n"

    def test_delete_offsets_and_delete(self, cli: Cli, used: Queue) -> None:
        (row,) = cli.json("share", "delete-offsets", used.group, "--all-topics", "--yes")
        assert row == {"topic": used.topic, "status": "deleted", "error": None}
        assert consume(cli, used, "-n", "1", *SHOWN) == "0:1 "  # share.auto.offset.reset=earliest
        assert cli.ok("share", "delete", used.group, "--yes") == f"deleted {used.group}\n"
        assert "GROUP_ID_NOT_FOUND" in cli.fails("share", "describe", used.group)
        assert cli.ok("share", "delete", used.group, "--yes", "--if-exists") == f"absent {used.group}\n"

    # -- groups of other types

    @pytest.fixture
    def consumer_group(self, cli: Cli, queue: Queue) -> str:
        name = f"readers-{uuid.uuid4().hex[:8]}"
        cli.ok("group", "reset-offsets", name, "--topic", queue.topic, "--to-latest", "--execute")
        return name

    def test_commands_name_the_one_that_fits(self, cli: Cli, used: Queue, consumer_group: str) -> None:
        for verb in ("describe", "delete-offsets", "reset-offsets", "delete"):
            options = {
                "delete-offsets": ("--all-topics", "--yes"),
                "reset-offsets": ("--all-topics", "--to-latest"),
                "delete": ("--yes",),
            }.get(verb, ())
            ours = cli.fails("group", verb, used.group, *options)
            assert f"{used.group!r} is a share group. Use 'ruslo share {verb} {used.group}'." in ours
            theirs = cli.fails("share", verb, consumer_group, *options)
            assert f"Use 'ruslo group {verb} {consumer_group}'." in theirs
        assert "is a share group" in cli.fails("group", "members", used.group)
        assert "GROUP_ID_NOT_FOUND" in cli.fails("group", "describe", "no-such-group")
        assert "GROUP_ID_NOT_FOUND" in cli.fails("share", "describe", "no-such-group")
