"""Translates librdkafka's errors to Ruslo's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ruslo.client.errors import ProducerFenced
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.net.errors import RequestTimedOut

if TYPE_CHECKING:
    import confluent_kafka


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Raise librdkafka's exceptions as KafkaError."""
    from confluent_kafka import KafkaException

    try:
        yield
    except KafkaException as error:
        raise as_kafka_error(error.args[0]) from error


def as_kafka_error(error: confluent_kafka.KafkaError) -> KafkaError:
    """librdkafka's local codes (below -1) become timeouts, network errors or the nearest Kafka code."""
    from confluent_kafka import KafkaError as Theirs

    code, text = error.code(), error.str()
    if code in (Theirs._FENCED, ErrorCode.PRODUCER_FENCED):
        message = (
            "a newer producer uses the transactional id, or the transaction timed out "
            f"(transaction.timeout.ms): close this producer ({text})"
        )
        return ProducerFenced(ErrorCode.PRODUCER_FENCED, message)
    if code in ErrorCode._value2member_map_:
        return KafkaError(ErrorCode(code), text)
    if code in (Theirs._TIMED_OUT, Theirs._MSG_TIMED_OUT, Theirs._TIMED_OUT_QUEUE):
        return RequestTimedOut(text)
    if code in (Theirs._PURGE_QUEUE, Theirs._PURGE_INFLIGHT):
        message = "the record was dropped: its transaction was aborted, or the producer was closed"
        return KafkaError(ErrorCode.OPERATION_NOT_ATTEMPTED, message)
    ours = {
        Theirs._UNKNOWN_TOPIC: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        Theirs._UNKNOWN_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        Theirs._TRANSPORT: ErrorCode.NETWORK_EXCEPTION,
        Theirs._ALL_BROKERS_DOWN: ErrorCode.NETWORK_EXCEPTION,
        Theirs._RESOLVE: ErrorCode.NETWORK_EXCEPTION,
        Theirs._SSL: ErrorCode.NETWORK_EXCEPTION,
        Theirs._AUTO_OFFSET_RESET: ErrorCode.OFFSET_OUT_OF_RANGE,
        Theirs._AUTHENTICATION: ErrorCode.SASL_AUTHENTICATION_FAILED,
        Theirs._STATE: ErrorCode.INVALID_REQUEST,
    }.get(code)
    if ours is not None:
        return KafkaError(ours, text)
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{text} ({error.name()})")
