from __future__ import annotations

import pytest

from ruslo.console.pages.acls import _is_about
from ruslo.console.pages.quotas import limit_text
from ruslo.console.security_lists import NO_AUTHORIZER, SecurityList, listed_or_reason
from ruslo.model.acls import Acl, Operation, PatternType, Permission, ResourceType
from ruslo.model.errors import ErrorCode, KafkaError


def acl(name: str, pattern: PatternType = PatternType.LITERAL) -> Acl:
    return Acl(ResourceType.TOPIC, name, pattern, "User:alice", "*", Operation.READ, Permission.ALLOW)


@pytest.mark.parametrize(
    ("rule", "search", "found"),
    [
        (acl("orders"), "", True),
        (acl("orders"), "ORD", True),
        (acl("orders"), "topic:orders", True),
        (acl("ord", PatternType.PREFIXED), "topic:orders", True),
        (acl("*"), "topic:orders", True),
        (acl("ord"), "topic:orders", False),
        (acl("*"), "group:orders", False),
        (acl("prices"), "orders", False),
    ],
)
def test_acls_about_a_resource(rule: Acl, search: str, found: bool) -> None:
    assert _is_about(rule, search) is found


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("producer_byte_rate", 1048576.0, "1.0 MiB/s"),
        ("consumer_byte_rate", 100.0, "100 B/s"),
        ("request_percentage", 12.5, "12.5 %"),
        ("controller_mutation_rate", 10.0, "10/s"),
        ("producer_byte_rate", None, "none"),
    ],
)
def test_limits_have_their_unit(key: str, value: float | None, text: str) -> None:
    assert limit_text(key, value) == text


async def failing(code: ErrorCode) -> list[str]:
    raise KafkaError(code, "the broker's message")


async def test_why_a_list_is_not_shown() -> None:
    disabled = await listed_or_reason(failing(ErrorCode.SECURITY_DISABLED), "ACLs", "describe")
    assert disabled == SecurityList((), NO_AUTHORIZER, 200)
    denied = await listed_or_reason(failing(ErrorCode.CLUSTER_AUTHORIZATION_FAILED), "ACLs", "describe")
    assert denied.status == 403
    assert denied.reason is not None
    assert "ruslo acl allow User:NAME describe cluster" in denied.reason
    with pytest.raises(KafkaError):
        await listed_or_reason(failing(ErrorCode.NOT_CONTROLLER), "ACLs", "describe")
