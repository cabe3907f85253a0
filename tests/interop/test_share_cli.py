"""The commands of share groups and streams groups with Apache Kafka, compared with its own tools."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

pytest.register_assert_rewrite(
    *(f"tests.support.checks.{name}_checks" for name in ("group", "share", "streams"))
)

from tests.support.brokers.kafka import ApacheKafka  # noqa: E402
from tests.support.checks.cli_checks import Cli  # noqa: E402
from tests.support.checks.group_checks import until  # noqa: E402
from tests.support.checks.share_checks import RECORDS, Queue, ShareChecks, new_queue  # noqa: E402
from tests.support.checks.streams_checks import STREAMS_NODE_PROPERTIES, StreamsChecks  # noqa: E402
from tests.support.groups.group_members import GROUP_NODE_PROPERTIES  # noqa: E402
from tests.support.share.share_node import SHARE_NODE_PROPERTIES  # noqa: E402
from tests.support.tools.java_tools import tool_output  # noqa: E402
from tests.support.tools.kafka_jars import java_command  # noqa: E402
from tests.support.tools.programs import require_tool  # noqa: E402


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    require_tool("java")
    properties = {**GROUP_NODE_PROPERTIES, **SHARE_NODE_PROPERTIES, **STREAMS_NODE_PROPERTIES}
    with ApacheKafka(tmp_path_factory.mktemp("apache-kafka"), properties=properties) as kafka:
        yield kafka.bootstrap


def share_tool(cli: Cli, *arguments: str) -> list[list[str]]:
    """The cells of Kafka's own command, without the headings."""
    name = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
    text = tool_output(name, "--bootstrap-server", cli.bootstrap, *arguments)
    return [line.split() for line in text.splitlines() if line.strip() and not line.startswith("GROUP")]


class TestShareGroupsWithApacheKafka(ShareChecks):
    def test_offsets_match_kafkas_tool(self, cli: Cli, used: Queue) -> None:
        (row,) = until(cli, ["share", "offsets", used.group], lambda rows: rows[0]["lag"] is not None)
        described = share_tool(cli, "--describe", "--group", used.group)
        assert [used.group, used.topic, "0", str(row["start_offset"]), str(row["lag"])] in described
        share_tool(
            cli, "--reset-offsets", "--group", used.group, "--all-topics", "--to-earliest", "--execute"
        )
        (row,) = cli.json("share", "offsets", used.group)
        assert row["start_offset"] == 0

    def test_a_member_of_the_java_client(self, cli: Cli) -> None:
        queue = new_queue(cli)
        name = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
        options = ("--bootstrap-server", cli.bootstrap, "--topic", queue.topic, "--group", queue.group)
        process = subprocess.Popen(java_command(name, *options), stdout=subprocess.PIPE, text=True)
        try:
            until(
                cli,
                ["share", "list"],
                lambda rows: [row["members"] for row in rows if row["group_id"] == queue.group] == [1],
                timeout_s=120,
            )
            ((member,),) = (view["members"] for view in cli.json("share", "describe", queue.group))
            assert member["client_id"] == "console-share-consumer"
            assert process.stdout is not None
            assert [process.stdout.readline() for _ in range(RECORDS)] == [f"v{n}\n" for n in range(RECORDS)]
        finally:
            process.terminate()
            process.communicate(timeout=60)


class TestStreamsGroupsWithApacheKafka(StreamsChecks):
    pass
