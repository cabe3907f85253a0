"""Error messages for users: what failed, why, and how to fix it."""

from __future__ import annotations

from collections.abc import Mapping

import click

from ruslo.client.wire.listener_probe import WrongSecurityProtocol
from ruslo.model.errors import ErrorCode, KafkaError, RusloError
from ruslo.model.topics import TopicPartition
from ruslo.net.errors import BrokerUnreachable

_SEE_MEMBERS = (
    "Stop its consumers first. Run 'ruslo group members' or 'ruslo share describe' to see where they run."
)
_SEE_EPOCHS = "Run 'ruslo txn producers' to see the producer epochs of the partition."

_ADVICE = {
    ErrorCode.OFFSET_OUT_OF_RANGE: "Run 'ruslo topic describe' to see the offsets of each partition.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "Run 'ruslo topic list' to see the topics.",
    ErrorCode.TOPIC_ALREADY_EXISTS: "Add --if-not-exists to accept an existing topic.",
    ErrorCode.INVALID_REPLICATION_FACTOR: "Run 'ruslo cluster info' to see the number of brokers.",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Ask the cluster operator for access to this topic.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Ask the cluster operator for permission for this operation.",
    ErrorCode.SECURITY_DISABLED: "Set authorizer.class.name on every node to use ACLs.",
    ErrorCode.RESOURCE_NOT_FOUND: "Run 'ruslo user list' to see the users.",
    ErrorCode.SASL_AUTHENTICATION_FAILED: "Check sasl.mechanism, the user and its password.",
    ErrorCode.UNSUPPORTED_VERSION: "The broker does not support this request.",
    ErrorCode.MESSAGE_TOO_LARGE: "Raise max.message.bytes of the topic and max.request.size of the producer.",
    ErrorCode.POLICY_VIOLATION: "A policy forbids it: a compacted topic, for example, keeps its records.",
    ErrorCode.GROUP_ID_NOT_FOUND: "Run 'ruslo group list' to see the groups.",
    ErrorCode.NON_EMPTY_GROUP: _SEE_MEMBERS,
    ErrorCode.UNKNOWN_MEMBER_ID: _SEE_MEMBERS,
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "Stop its consumers, or change their subscription.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Ask the cluster operator for access to this group.",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available yet. Try again in a moment.",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "Run 'ruslo txn list' to see the transactional IDs.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Ask the cluster operator for access to this ID.",
    ErrorCode.CONCURRENT_TRANSACTIONS: "Its transaction is being completed. Try again in a moment.",
    ErrorCode.INVALID_PRODUCER_EPOCH: _SEE_EPOCHS,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: _SEE_EPOCHS,
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: "Run 'ruslo cluster brokers' to see the brokers.",
    ErrorCode.BROKER_ID_NOT_REGISTERED: "Run 'ruslo cluster brokers' to see the brokers.",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "The preferred leader must be alive and in sync.",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "Start a broker that has a replica of the partition.",
    ErrorCode.DUPLICATE_VOTER: "Run 'ruslo cluster voter list' to see the voters.",
    ErrorCode.VOTER_NOT_FOUND: "Run 'ruslo cluster voter list' to see the voters.",
    ErrorCode.NETWORK_EXCEPTION: "Check that a Kafka broker is running at this address.",
    ErrorCode.NOT_ENOUGH_REPLICAS: "Fewer replicas are in sync than min.insync.replicas requires.",
}


def explain(error: Exception) -> str | None:
    """A message for the user, or None for a bug of ours, which keeps its traceback."""
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
        return f"{error.object!r} is not valid UTF-8. Use a name in UTF-8"
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror.lower()}"
    if type(error).__module__.startswith(("cimpl", "confluent_kafka")):
        return _librdkafka(error)
    return None


def fail_for(failed: Mapping[str, KafkaError] | Mapping[TopicPartition, KafkaError]) -> None:
    """Exit with 1 and a message for each item that failed; do nothing if none failed."""
    if failed:
        raise click.ClickException(
            "\n       ".join(f"{what}: {explain(error)}" for what, error in failed.items())
        )


def _unreachable(error: BrokerUnreachable) -> str:
    host, port = error.addresses[0]
    if host in ("127.0.0.1", "localhost", "::1"):
        start = f"Start a broker there with 'ruslo dev --port {port}', or use"
    elif "unknown host name" in (error.message or ""):
        start = "Check the spelling of the host, or use"
    else:
        start = "Check that the broker is running and no firewall blocks the connection, or use"
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
