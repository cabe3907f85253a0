"""The transaction commands with Apache Kafka, and Kafka's own command with Ruslo."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.register_assert_rewrite(
    "tests.support.checks.cli_checks", "tests.support.checks.group_checks", "tests.support.checks.txn_checks"
)

from ruslo.testing import EmbeddedBroker  # noqa: E402
from tests.support.brokers.kafka import ApacheKafka  # noqa: E402
from tests.support.checks.cli_checks import Cli  # noqa: E402
from tests.support.checks.group_checks import KEPT  # noqa: E402
from tests.support.checks.txn_checks import TxnChecks, begin, find_hanging, new_id  # noqa: E402
from tests.support.clients.librdkafka import Sent, produce_all  # noqa: E402
from tests.support.tools.java_tools import tool_output  # noqa: E402
from tests.support.tools.programs import require_tool  # noqa: E402
from tests.support.txns.hanging import HOUR_MS, UNVERIFIED, hang  # noqa: E402
from tests.support.txns.transactional_clients import CALL_S, read_committed  # noqa: E402


class TestTransactionsWithApacheKafka(TxnChecks):
    @pytest.fixture(scope="class")
    @classmethod
    def bootstrap(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
        require_tool("java")
        with ApacheKafka(tmp_path_factory.mktemp("apache-kafka"), properties=UNVERIFIED) as kafka:
            yield kafka.bootstrap


class Theirs:
    """Kafka's TransactionsCommand, pointed at one cluster."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def __call__(self, *arguments: str) -> list[dict[str, str]]:
        """The table it prints."""
        name = "org.apache.kafka.tools.TransactionsCommand"
        text = tool_output(name, "--bootstrap-server", self._bootstrap, *arguments)
        lines = [[cell.strip() for cell in line.split("\t")] for line in text.splitlines()]
        return [dict(zip(lines[0], cells, strict=True)) for cells in lines[1:]]


def shown(row: dict[str, Any], names: dict[str, str]) -> dict[str, str]:
    """A row of our output with Kafka's column names and notation for None."""
    return {theirs: "-1" if row[ours] is None else str(row[ours]) for ours, theirs in names.items()}


def only(row: dict[str, str], names: dict[str, str]) -> dict[str, str]:
    return {name: row[name].replace("None", "-1") for name in names.values()}


class TestKafkasOwnCommandWithRuslo:
    @pytest.fixture(scope="class")
    @classmethod
    def cli(cls) -> Iterator[Cli]:
        require_tool("java")
        with EmbeddedBroker(UNVERIFIED) as broker:
            yield Cli(broker.bootstrap)

    @pytest.fixture(scope="class")
    @classmethod
    def theirs(cls, cli: Cli) -> Theirs:
        return Theirs(cli.bootstrap)

    def test_list_and_describe(self, cli: Cli, theirs: Theirs) -> None:
        topic, opened, done = cli.new_topic("-p", "2"), new_id(), new_id()
        begin(cli, done, topic).commit_transaction(CALL_S)
        begin(cli, opened, topic, partitions=2)
        names = {
            "transactional_id": "TransactionalId",
            "coordinator": "Coordinator",
            "producer_id": "ProducerId",
            "state": "TransactionState",
        }
        for ours, filters in (
            ((), ()),
            (("--longer-than", "1h"), ("--duration-filter", "3600000")),
            (("--matching", f"{opened}.?"), ("--transactional-id-pattern", f"{opened}.?")),
        ):
            rows = cli.json("txn", "list", *ours)
            listed = theirs("list", *filters)
            assert [shown(row, names) for row in rows] == [
                only(row, names) for row in sorted(listed, key=lambda row: row["TransactionalId"])
            ]
        names = {
            "transactional_id": "TransactionalId",
            "coordinator": "CoordinatorId",
            "producer_id": "ProducerId",
            "producer_epoch": "ProducerEpoch",
            "state": "TransactionState",
            "timeout_ms": "TransactionTimeoutMs",
        }
        (view,) = cli.json("txn", "describe", opened)
        (described,) = theirs("describe", "--transactional-id", opened)
        assert shown(view, names) == only(described, names)
        assert described["CurrentTransactionStartTimeMs"] == str(view["start_time_ms"])
        assert set(described["TopicPartitions"].split(",")) == {f"{topic}-0", f"{topic}-1"}
        cli.ok("txn", "abort", "--transactional-id", opened, "--yes")

    def test_producers(self, cli: Cli, theirs: Theirs) -> None:
        topic = cli.new_topic(*KEPT)
        begin(cli, new_id(), topic).commit_transaction(CALL_S)
        hang(cli.bootstrap, topic)
        names = {
            "producer_id": "ProducerId",
            "producer_epoch": "ProducerEpoch",
            "coordinator_epoch": "LatestCoordinatorEpoch",
            "last_sequence": "LastSequence",
            "last_timestamp_ms": "LastTimestamp",
            "txn_start_offset": "CurrentTransactionStartOffset",
        }
        described = theirs("describe-producers", "--topic", topic, "--partition", "0")
        rows = cli.json("txn", "producers", f"{topic}:0")
        assert len(rows) == 2
        assert [shown(row, names) for row in rows] == [
            only(row, names) for row in sorted(described, key=lambda row: int(row["ProducerId"]))
        ]
        cli.ok("txn", "abort", topic, "0", "--start-offset", "2", "--yes")

    def test_find_hanging_and_abort(self, cli: Cli, theirs: Theirs) -> None:
        topic, listed = cli.new_topic("-p", "2", *KEPT), new_id()
        begin(cli, listed, topic, partitions=1, age_ms=HOUR_MS)
        for index in range(2):
            hang(cli.bootstrap, topic, index)
        produce_all(cli.bootstrap, topic, [Sent(b"behind", partition=index) for index in range(2)])
        names = {
            "topic": "Topic",
            "partition": "Partition",
            "producer_id": "ProducerId",
            "producer_epoch": "ProducerEpoch",
            "coordinator_epoch": "CoordinatorEpoch",
            "txn_start_offset": "StartOffset",
            "last_timestamp_ms": "LastTimestamp",
        }
        found = find_hanging(cli, "--topic", topic)
        assert [(row["partition"], row["txn_start_offset"]) for row in found] == [(0, 1), (1, 0)]
        expected = theirs("find-hanging", "--broker-id", "1")
        assert [shown(row, names) for row in found] == [
            only(row, names) for row in sorted(expected, key=lambda row: row["Partition"])
        ]
        theirs("abort", "--topic", topic, "--partition", "1", "--start-offset", "0")
        assert [row["partition"] for row in find_hanging(cli, "--topic", topic)] == [0]
        cli.ok("txn", "abort", topic, "0", "--start-offset", "1", "--yes")
        assert theirs("find-hanging", "--broker-id", "1") == []
        assert read_committed(cli.bootstrap, topic, 2) == [b"behind"], (
            "the listed transaction blocks the other one"
        )
        theirs("forceTerminateTransaction", "--transactionalId", listed)
        assert read_committed(cli.bootstrap, topic, 2) == [b"behind", b"behind"]
