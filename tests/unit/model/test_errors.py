"""The table of error codes."""

from __future__ import annotations

from ruslo.model.errors import ErrorCode, KafkaError


def test_retriable_codes() -> None:
    assert ErrorCode(6) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER.retriable
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER.refreshes_metadata
    assert ErrorCode.CORRUPT_MESSAGE.retriable
    assert not ErrorCode.CORRUPT_MESSAGE.refreshes_metadata
    assert not ErrorCode.INVALID_TOPIC_EXCEPTION.retriable
    assert not ErrorCode.NONE.retriable


def test_an_unknown_code_is_an_unknown_server_error() -> None:
    assert ErrorCode(32_000) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_an_error_shows_its_code_and_reason() -> None:
    assert (
        str(KafkaError(ErrorCode.INVALID_CONFIG, "retention.ms is -7"))
        == "INVALID_CONFIG: retention.ms is -7"
    )
    assert str(KafkaError(ErrorCode.INVALID_CONFIG)) == "INVALID_CONFIG"
