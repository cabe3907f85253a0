"""Errors as people should read them: what happened, why, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping

import click

from ruslo.client.wire.listener_probe import WrongSecurityProtocol
from ruslo.model.errors import ErrorCode, KafkaError, RusloError
from ruslo.model.topics import TopicPartition
from ruslo.net.errors import BrokerUnreachable

_SEE_EPOCHS = "'ruslo txn producers' shows the epochs that the partition knows."

_ADVICE = {
    ErrorCode.OFFSET_OUT_OF_RANGE: "'ruslo topic describe' shows the first and next offset of partitions.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "'ruslo topic list' shows what exists.",
    ErrorCode.TOPIC_ALREADY_EXISTS: "'ruslo topic describe' shows it; --if-not-exists makes this no error.",
    ErrorCode.INVALID_REPLICATION_FACTOR: "'ruslo cluster info' shows how many brokers there are.",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Ask the cluster's operator for the right to this topic.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Ask the cluster's operator for the right to this action.",
    ErrorCode.UNSUPPORTED_VERSION: "The broker does not offer this; it may be too old or not have it yet.",
    ErrorCode.MESSAGE_TOO_LARGE: "Raise max.message.bytes of the topic and the producer's max.request.size.",
    ErrorCode.POLICY_VIOLATION: "A rule of the cluster forbids it (a compacted topic keeps its records).",
    ErrorCode.GROUP_ID_NOT_FOUND: "'ruslo group list' shows what exists.",
    ErrorCode.NON_EMPTY_GROUP: "Stop its consumers first; 'ruslo group members' shows where they run.",
    ErrorCode.UNKNOWN_MEMBER_ID: "Stop its consumers first; 'ruslo group members' shows where they run.",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "Stop its consumers, or have them subscribe to something else.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Ask the cluster's operator for the right to this group.",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not there yet; try again in a moment.",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "'ruslo txn list' shows what exists.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Ask the cluster's operator for the right to this id.",
    ErrorCode.CONCURRENT_TRANSACTIONS: "Its transaction is being ended; try again in a moment.",
    ErrorCode.INVALID_PRODUCER_EPOCH: _SEE_EPOCHS,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: _SEE_EPOCHS,
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: "'ruslo cluster brokers' shows who is there.",
    ErrorCode.BROKER_ID_NOT_REGISTERED: "'ruslo cluster brokers' shows who is there.",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "Its first replica must be alive and in sync.",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "Start a broker that has a replica of it.",
    ErrorCode.DUPLICATE_VOTER: "'ruslo cluster voter list' shows who votes.",
    ErrorCode.VOTER_NOT_FOUND: "'ruslo cluster voter list' shows who votes.",
    ErrorCode.NETWORK_EXCEPTION: "Check that this is the address of a Kafka broker, and that it runs.",
    ErrorCode.NOT_ENOUGH_REPLICAS: "Fewer replicas are in sync than min.insync.replicas asks for.",
}


def explain(error: Exception) -> str | None:
    """One message for the user, or None for what can only be a bug of ours (which keeps its traceback)."""
    if isinstance(error, BrokerUnreachable):
        return _unreachable(error)
    if isinstance(error, WrongSecurityProtocol):
        return error.message
    if isinstance(error, KafkaError):
        advice = _ADVICE.get(error.code)
        text = f"{error.message.rstrip('.')} ({error.code.name})" if error.message else error.code.name
        return f"{text}. {advice}" if advice else text
    if isinstance(error, RusloError):
        return str(error)
    if isinstance(error, UnicodeEncodeError):
        return f"{error.object!r} is not text in UTF-8, which names must be"
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror.lower()}"
    if type(error).__module__.startswith(("cimpl", "confluent_kafka")):
        return _librdkafka(error)
    return None


def fail_for(failed: Mapping[str, KafkaError] | Mapping[TopicPartition, KafkaError]) -> None:
    """One message for each part of a request that was refused, if any; exit code 1."""
    if failed:
        raise click.ClickException(
            "\n       ".join(f"{what}: {explain(error)}" for what, error in failed.items())
        )


def _unreachable(error: BrokerUnreachable) -> str:
    host, port = error.addresses[0]
    if host in ("127.0.0.1", "localhost", "::1"):
        start = f"Start a broker there with 'ruslo dev --port {port}', or name"
    elif "unknown host name" in (error.message or ""):
        start = "Check how the host is spelled, or name"
    else:
        start = "Check that the broker runs and that a firewall lets you through, or name"
    return f"{error.message}. {start} another address with --bootstrap-server (or RUSLO_BOOTSTRAP)."


def _librdkafka(error: Exception) -> str:
    inner = error.args[0] if error.args else None
    if inner is not None and hasattr(inner, "name") and hasattr(inner, "str"):
        code = _code(inner.code())
        advice = _ADVICE.get(code) if code is not None else None
        return f"{inner.str()} ({inner.name()})" + (f". {advice}" if advice else "")
    return str(error)


def _code(number: int) -> ErrorCode | None:
    return ErrorCode(number) if number in ErrorCode._value2member_map_ else None
