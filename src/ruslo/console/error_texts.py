"""Error texts of pages."""

from __future__ import annotations

from http import HTTPStatus

from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.net.errors import BrokerUnreachable

_NOT_FOUND = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.RESOURCE_NOT_FOUND,
    }
)
AUTHORIZATION_ERRORS = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    }
)
_PARENT_PAGES = {
    "/topics": ("/topics", "Topics"),
    "/group": ("/groups", "Groups"),
    "/brokers": ("/brokers", "Brokers"),
    "/transactions": ("/transactions", "Transactions"),
    "/pipelines": ("/pipelines", "Pipelines"),
    "/dead-letters": ("/pipelines", "Pipelines"),
    "/security/users": ("/security/users", "Users"),
    "/security/acls": ("/security/acls", "ACLs"),
    "/security/explain": ("/security/acls", "ACLs"),
    "/security/audit": ("/security/audit", "Audit log"),
    "/security/quotas": ("/security/quotas", "Quotas"),
}
_ADVICE = {
    ErrorCode.UNSUPPORTED_VERSION: "The brokers do not support this request. Upgrade them.",
    ErrorCode.MESSAGE_TOO_LARGE: "Raise max.message.bytes of the topic, or send a smaller record.",
    ErrorCode.POLICY_VIOLATION: "The cluster forbids it: a compacted topic keeps its records.",
    ErrorCode.NON_EMPTY_GROUP: "Stop its consumers first.",
    ErrorCode.UNKNOWN_MEMBER_ID: "Stop its consumers first.",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "The topic's ACLs do not allow it: an administrator can grant "
    "READ (records), WRITE (produce), ALTER (partitions), DELETE, DESCRIBE_CONFIGS or ALTER_CONFIGS on it.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "The group's ACLs do not allow it: an administrator can grant "
    "READ (reset offsets), DELETE or DESCRIBE on it.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "The cluster's ACLs do not allow it: an administrator can "
    "grant DESCRIBE (view), ALTER (users and ACLs), DESCRIBE_CONFIGS or ALTER_CONFIGS (configs, quotas) "
    "on it.",
    ErrorCode.SECURITY_DISABLED: "The cluster has no authorizer, so every client may do everything. Set "
    "authorizer.class.name on its nodes to use ACLs.",
    ErrorCode.NOT_ENOUGH_REPLICAS: "The ISR is below min.insync.replicas. Restart the missing brokers.",
    ErrorCode.CONCURRENT_TRANSACTIONS: "Its transaction is ending. Try again in a moment.",
}


def error_text(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "The cluster did not respond in time. Check that its brokers are running."
    if isinstance(error, BrokerUnreachable):
        return f"{_sentence(error.message or 'the cluster is unreachable')} Check that a broker runs there."
    if isinstance(error, KafkaError):
        text = _sentence(
            f"{error.message.rstrip('.')} ({error.code.name})" if error.message else error.code.name
        )
        advice = _ADVICE.get(error.code)
        return f"{text} {advice}" if advice else text
    return _sentence(str(error))


def http_status(error: Exception) -> HTTPStatus:
    if isinstance(error, KafkaError) and error.code in _NOT_FOUND:
        return HTTPStatus.NOT_FOUND
    if isinstance(error, KafkaError) and error.code in AUTHORIZATION_ERRORS:
        return HTTPStatus.FORBIDDEN
    return HTTPStatus.GATEWAY_TIMEOUT if isinstance(error, TimeoutError) else HTTPStatus.BAD_GATEWAY


def parent_page(path: str) -> tuple[str, str] | None:
    """The path and name of the list above the page that failed."""
    topic, found, _ = path.partition("/messages/")
    if found:
        return f"{topic}/messages", "Messages of the topic"
    return next(
        (page for prefix, page in _PARENT_PAGES.items() if path.startswith(prefix) and path != page[0]), None
    )


def _sentence(text: str) -> str:
    text = text.strip()
    return f"{text[:1].upper()}{text[1:].rstrip('.')}." if text else "The request failed."
