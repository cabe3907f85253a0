from __future__ import annotations

import json

import pytest

from ruslo.console.audit.events import AuditEvent, AuditFilter, parse_event

TIME = "2026-03-01T10:00:00.250+00:00"
TIME_MS = 1772359200250


def event(**fields: object) -> AuditEvent:
    line = {
        "time": TIME,
        "node": 1,
        "event": "denied",
        "principal": "User:alice",
        "host": "10.0.0.7",
        **fields,
    }
    found = parse_event(json.dumps(line).encode())
    assert found is not None
    return found


DENIED = event(
    operation="DESCRIBE_CONFIGS", resource="TOPIC", name="Orders", rule="no ACL allows it", api="X"
)
CHANGE = event(event="change", api="CreateAcls", request={"name": "orders"}, errors=["NONE"])
LOGIN = event(event="login failed", mechanism="PLAIN", reason="wrong password")


def test_what_an_event_says() -> None:
    assert (DENIED.time_ms, DENIED.node) == (TIME_MS, "1")
    assert (DENIED.operation, DENIED.resource, DENIED.outcome) == (
        "DESCRIBE_CONFIGS",
        "topic:Orders",
        "no ACL allows it",
    )
    assert (CHANGE.operation, CHANGE.resource, CHANGE.outcome) == ("CreateAcls", "", "NONE")
    assert '"name": "orders"' in CHANGE.request
    assert (LOGIN.operation, LOGIN.outcome, LOGIN.request) == ("PLAIN", "wrong password", "")


@pytest.mark.parametrize(
    "line",
    [b"", b"hello", b"[]", b"{}", b'"text"', b"[" * 100_000, b"\xff", b'{"time": 5}', b'{"time": "soon"}'],
)
def test_a_line_that_is_not_an_event(line: bytes) -> None:
    assert parse_event(line) is None


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (AuditFilter(), [DENIED, CHANGE, LOGIN]),
        (AuditFilter(principal="ALICE"), [DENIED, CHANGE, LOGIN]),
        (AuditFilter(principal="bob"), []),
        (AuditFilter(operation="describe-configs"), [DENIED]),
        (AuditFilter(operation="createacls"), [CHANGE]),
        (AuditFilter(resource="topic:orders"), [DENIED, CHANGE]),
        (AuditFilter(decision="login failed"), [LOGIN]),
        (AuditFilter(from_ms=TIME_MS, to_ms=TIME_MS + 1), [DENIED, CHANGE, LOGIN]),
        (AuditFilter(to_ms=TIME_MS), []),
        (AuditFilter(from_ms=TIME_MS + 1), []),
    ],
)
def test_filters(wanted: AuditFilter, found: list[AuditEvent]) -> None:
    assert [each for each in (DENIED, CHANGE, LOGIN) if wanted.matches(each)] == found
