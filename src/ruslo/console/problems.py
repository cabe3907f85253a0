"""What went wrong, as a page says it."""

from __future__ import annotations

from http import HTTPStatus

from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.net.errors import BrokerUnreachable

_ABSENT = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.BROKER_NOT_AVAILABLE,
    }
)
_LISTS = {
    "/topics": ("/topics", "Topics"),
    "/group": ("/groups", "Groups"),
    "/brokers": ("/brokers", "Brokers"),
    "/transactions": ("/transactions", "Transactions"),
    "/pipelines": ("/pipelines", "Pipelines"),
    "/dead-letters": ("/pipelines", "Pipelines"),
}
_ADVICE = {
    ErrorCode.UNSUPPORTED_VERSION: "The brokers do not offer this; they may be too old.",
    ErrorCode.MESSAGE_TOO_LARGE: "Raise max.message.bytes of the topic, or send a smaller record.",
    ErrorCode.POLICY_VIOLATION: "A rule of the cluster forbids it; a compacted topic keeps its records.",
    ErrorCode.NON_EMPTY_GROUP: "Stop its consumers first.",
    ErrorCode.UNKNOWN_MEMBER_ID: "Stop its consumers first.",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "The console's user has no right to this topic.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "The console's user has no right to this group.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "The console's user has no right to do this.",
    ErrorCode.NOT_ENOUGH_REPLICAS: "Fewer replicas are in sync than min.insync.replicas asks for.",
    ErrorCode.CONCURRENT_TRANSACTIONS: "Its transaction is being ended; try again in a moment.",
}


def reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "The cluster did not answer in time."
    if isinstance(error, BrokerUnreachable):
        return f"{_sentence(error.message or 'the cluster cannot be reached')} Is a broker running there?"
    if isinstance(error, KafkaError):
        text = _sentence(
            f"{error.message.rstrip('.')} ({error.code.name})" if error.message else error.code.name
        )
        advice = _ADVICE.get(error.code)
        return f"{text} {advice}" if advice else text
    return _sentence(str(error))


def status_of(error: Exception) -> HTTPStatus:
    if isinstance(error, KafkaError) and error.code in _ABSENT:
        return HTTPStatus.NOT_FOUND
    return HTTPStatus.GATEWAY_TIMEOUT if isinstance(error, TimeoutError) else HTTPStatus.BAD_GATEWAY


def way_on(path: str) -> tuple[str, str] | None:
    """The address and name of the list in which what a page could not show would stand."""
    topic, found, _ = path.partition("/messages/")
    if found:
        return f"{topic}/messages", "Messages of the topic"
    return next(
        (place for begin, place in _LISTS.items() if path.startswith(begin) and path != place[0]), None
    )


def _sentence(text: str) -> str:
    text = text.strip()
    return f"{text[:1].upper()}{text[1:].rstrip('.')}." if text else "Something went wrong."
