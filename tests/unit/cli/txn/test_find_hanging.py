from __future__ import annotations

import json
from collections.abc import Mapping

from click.testing import CliRunner, Result

from ruslo.cli.main import cli
from ruslo.cli.txn.find_hanging import EXIT_HANGING, EXIT_UNKNOWN, abort_command
from ruslo.client.admin.producers import ActiveProducer
from ruslo.client.views.hanging_transactions import HangingTransaction, OpenTransaction
from ruslo.model.topics import TopicPartition
from tests.support.brokers.scripted_thread import scripted_bootstrap
from tests.support.txns.txn_script import TxnScript


def find_hanging(script: TxnScript, topics: Mapping[str, int], *arguments: str) -> Result:
    with scripted_bootstrap(script, topics) as bootstrap:
        return CliRunner().invoke(
            cli, ["txn", "find-hanging", *arguments], env={"RUSLO_BOOTSTRAP": bootstrap}
        )


LEADERLESS = {"headless": -1, "t": 1}


def test_partitions_without_a_leader_fail_the_search() -> None:
    result = find_hanging(TxnScript(), LEADERLESS)
    assert result.exit_code == EXIT_UNKNOWN
    assert "partitions without a leader: headless:0" in result.stderr
    assert find_hanging(TxnScript(), LEADERLESS, "--topic", "headless").exit_code == EXIT_UNKNOWN
    assert find_hanging(TxnScript(), LEADERLESS, "--topic", "t").exit_code == 0
    assert find_hanging(TxnScript(), LEADERLESS, "--broker", "1").exit_code == 0, (
        "the broker leads none of the partitions"
    )


def test_hanging_transactions_take_precedence_over_leaderless_partitions() -> None:
    script = TxnScript()
    script.open(7, start_offset=42)
    result = find_hanging(script, LEADERLESS, "-o", "json")
    assert result.exit_code == EXIT_HANGING
    commands = [row["abort_command"] for row in json.loads(result.stdout)]
    assert commands == ["ruslo txn abort t 0 --start-offset 42"]
    assert "headless:0" in result.stderr


def test_the_abort_command_can_be_pasted() -> None:
    producer = ActiveProducer(7, 3, 0, 1000, -1, 42)
    hanging = HangingTransaction(OpenTransaction(TopicPartition("a.b_c-d", 5), producer), None)
    assert abort_command(hanging) == "ruslo txn abort a.b_c-d 5 --start-offset 42"
