from __future__ import annotations

import socket

import confluent_kafka
import pytest

from ruslo.cli.terminal.errors import explain
from ruslo.model.errors import ConfigError, ErrorCode, KafkaError
from ruslo.net.errors import BrokerUnreachable, RequestTimedOut


def test_a_broker_error_is_shown_with_its_code_and_advice() -> None:
    text = explain(KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "topic 'x' does not exist."))
    assert (
        text
        == "topic 'x' does not exist (UNKNOWN_TOPIC_OR_PARTITION). Run 'ruslo topic list' to see the topics."
    )
    assert explain(KafkaError(ErrorCode.INVALID_PARTITIONS)) == "INVALID_PARTITIONS"


@pytest.mark.parametrize(
    ("host", "advice"), [("127.0.0.1", "ruslo dev --port 99"), ("example.org", "firewall")]
)
def test_unreachable_broker_has_advice(host: str, advice: str) -> None:
    text = explain(BrokerUnreachable.from_problems([((host, 99), ConnectionRefusedError())]))
    assert text is not None
    assert text.startswith(f"cannot connect to {host}:99 (connection refused). ")
    assert advice in text
    assert "--bootstrap-server" in text


def test_an_unknown_host_may_be_misspelled() -> None:
    text = explain(BrokerUnreachable.from_problems([(("brokr", 99), socket.gaierror())]))
    assert text is not None
    assert "Check the spelling of the host" in text


def test_other_errors() -> None:
    assert explain(ConfigError("why")) == "why"
    assert explain(RequestTimedOut("too slow")) == "too slow (REQUEST_TIMED_OUT)"
    assert explain(PermissionError(13, "Permission denied", "/data")) == "/data: permission denied"
    assert explain(ValueError("a bug")) is None


def test_errors_of_librdkafka() -> None:
    error = confluent_kafka.KafkaException(confluent_kafka.KafkaError(10, "too big"))
    text = explain(error)
    assert text is not None
    assert "too big" in text
    assert "max.message.bytes" in text


def test_a_name_that_is_not_utf8() -> None:
    with pytest.raises(UnicodeEncodeError) as caught:
        "\udcff".encode()
    assert explain(caught.value) == "'\\udcff' is not valid UTF-8. Use a name in UTF-8"
