"""The group commands with Apache Kafka, compared with its own tool."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

pytest.register_assert_rewrite("tests.support.checks.group_checks")

from tests.support.brokers.kafka import ApacheKafka  # noqa: E402
from tests.support.checks.cli_checks import Cli  # noqa: E402
from tests.support.checks.group_checks import KEPT, PROTOCOLS, GroupChecks, committed, member, new_group  # noqa: E402
from tests.support.clients.librdkafka import receive  # noqa: E402
from tests.support.groups.group_members import GROUP_NODE_PROPERTIES  # noqa: E402
from tests.support.tools.java_tools import tool_output  # noqa: E402
from tests.support.tools.programs import require_tool  # noqa: E402


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    require_tool("java")
    with ApacheKafka(tmp_path_factory.mktemp("apache-kafka"), properties=GROUP_NODE_PROPERTIES) as kafka:
        yield kafka.bootstrap


def groups_tool(cli: Cli, *arguments: str) -> str:
    """Kafka's own command."""
    name = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    return tool_output(name, "--bootstrap-server", cli.bootstrap, *arguments)


def table(text: str) -> list[dict[str, str]]:
    lines = [line.split() for line in text.splitlines() if line.strip()]
    start = next(number for number, cells in enumerate(lines) if cells[0] == "GROUP")
    return [dict(zip(lines[start], cells, strict=True)) for cells in lines[start + 1 :]]


class TestGroupsWithApacheKafka(GroupChecks):
    @pytest.mark.parametrize("protocol", PROTOCOLS)
    def test_output_matches_kafkas_tool(self, cli: Cli, topic: str, protocol: str) -> None:
        group = new_group()
        with member(cli, group, [topic], protocol) as consumer:
            consumer.commit(message=receive(consumer, 15)[-1], asynchronous=False)
            (ours,) = cli.json("group", "describe", group)
            theirs = table(groups_tool(cli, "--describe", "--group", group))
            columns = ("committed_offset", "end_offset", "lag", "member_id", "client_id")
            shown = {
                str(row["partition"]): ["-" if row[name] is None else str(row[name]) for name in columns]
                + [f"/{row['host']}"]
                for row in ours["partitions"]
            }
            names = ("CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "CLIENT-ID", "HOST")
            assert shown == {row["PARTITION"]: [row[name] for name in names] for row in theirs}
            (state,) = table(
                groups_tool(cli, "--describe", "--state", "--group", group).replace(
                    "COORDINATOR (ID)", "C (ID)"
                )
            )
            assert state["STATE"] == ours["state"]
            assert state["ASSIGNMENT-STRATEGY"] == ours["assignor"]
            assert state["#MEMBERS"] == str(ours["member_count"])

    def test_offset_files_of_kafkas_tool(self, cli: Cli, topic: str, idle_group: str, tmp_path: Path) -> None:
        reset = ("--reset-offsets", "--group", idle_group)
        exported = groups_tool(cli, *reset, "--topic", topic, "--shift-by", "3", "--export")
        saved = tmp_path / "theirs.csv"
        saved.write_text(exported)
        cli.ok("group", "reset-offsets", idle_group, "--from-file", str(saved), "--execute")
        assert committed(cli, idle_group, topic) == [7, 7]
        saved.write_text(
            cli.ok("group", "reset-offsets", idle_group, "--all-topics", "--to-offset", "2", "--export")
        )
        groups_tool(cli, *reset, "--from-file", str(saved), "--execute")
        assert committed(cli, idle_group, topic) == [2, 2]

    def test_transaction_markers_do_not_count_as_lag_in_seconds(self, cli: Cli) -> None:
        topic, group = cli.new_topic(*KEPT), new_group()
        producer = Producer({"bootstrap.servers": cli.bootstrap, "transactional.id": group})
        producer.init_transactions(30)
        for number in range(2):
            producer.begin_transaction()
            producer.produce(topic, b"v", timestamp=1_700_000_000_000 + number * 7000)
            producer.commit_transaction(30)
        # Offsets: record, marker, record, marker.
        seconds = {}
        for offset in range(5):
            cli.ok("group", "reset-offsets", group, "--topic", topic, "--to-offset", str(offset), "--execute")
            (described,) = cli.json("group", "describe", group)
            seconds[described["lag"]] = described["lag_seconds"]
        assert seconds == {4: 7.0, 3: 0.0, 2: 0.0, 1: 0.0, 0: 0.0}
