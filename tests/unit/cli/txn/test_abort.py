from __future__ import annotations

from click.testing import CliRunner

from ruslo.cli.main import cli
from ruslo.client.admin.transactions import ONGOING, PREPARE_COMMIT
from ruslo.model.topics import TRANSACTION_STATE_TOPIC
from ruslo.protocol.messages.describe_producers_request import DescribeProducersRequest
from ruslo.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ruslo.protocol.messages.write_txn_markers_request import WriteTxnMarkersRequest
from tests.support.brokers.scripted_broker import ReceivedRequest, ScriptedResponse
from tests.support.brokers.scripted_thread import scripted_bootstrap
from tests.support.txns.txn_script import TxnScript


def unexpected(received: ReceivedRequest) -> ScriptedResponse:
    raise AssertionError(f"{received.message} should not have been sent")


def stderr_of(script: TxnScript, *arguments: str) -> str:
    """Run a command that must exit with 1; return its stderr."""
    with scripted_bootstrap(script, {"t": 1, TRANSACTION_STATE_TOPIC: 1}) as bootstrap:
        words = ["txn", "abort", *arguments, "--yes"]
        result = CliRunner().invoke(cli, words, env={"RUSLO_BOOTSTRAP": bootstrap})
    assert (result.exit_code, result.stdout) == (1, "")
    return result.stderr


def test_a_committing_transaction_cannot_be_aborted() -> None:
    script = TxnScript()
    script.add("x", 7, PREPARE_COMMIT, "t")
    script.responses[InitProducerIdRequest] = unexpected
    error_text = stderr_of(script, "--transactional-id", "x")
    assert "is being committed, which cannot be undone" in error_text
    assert "'ruslo txn describe x'" in error_text


def test_a_transaction_that_changed_before_confirmation_is_not_aborted() -> None:
    script = TxnScript()
    script.open(7, start_offset=42)
    script.responses[WriteTxnMarkersRequest] = unexpected
    times = 0

    def response(received: ReceivedRequest) -> ScriptedResponse:
        nonlocal times
        times += 1
        if times == 2:
            script.producers[0].producer_epoch += 1
        del script.responses[DescribeProducersRequest]
        try:
            return script(received)
        finally:
            script.responses[DescribeProducersRequest] = response

    script.responses[DescribeProducersRequest] = response
    error_text = stderr_of(script, "t", "0", "--start-offset", "42")
    assert "changed in the meantime; nothing was written" in error_text


def test_a_transaction_that_its_coordinator_knows_is_rejected() -> None:
    script = TxnScript()
    script.open(7, start_offset=42)
    script.add("x", 7, ONGOING, "t")
    script.responses[WriteTxnMarkersRequest] = unexpected
    error_text = stderr_of(script, "t", "0", "--start-offset", "42")
    assert "the transaction does not hang: it belongs to x (Ongoing)" in error_text
    assert "Abort the whole transaction with 'ruslo txn abort --transactional-id x'" in error_text
