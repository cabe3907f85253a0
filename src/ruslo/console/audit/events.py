"""Events of an audit log, and the filter that selects some of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

DECISIONS = ("denied", "allowed", "login", "login failed", "change")
_OWN_FIELDS = frozenset({"time", "node", "event", "principal", "host"})


@dataclass(frozen=True, slots=True)
class AuditEvent:
    time_ms: int
    decision: str
    """What happened, one of DECISIONS."""
    principal: str
    host: str
    node: str
    fields: Mapping[str, Any]
    """The other fields of the line, which depend on the decision."""

    def text(self, name: str) -> str:
        value = self.fields.get(name)
        return "" if value is None else str(value)

    @property
    def operation(self) -> str:
        """The operation that was decided, the API of a change, or the mechanism of a log-in."""
        return self.text("operation") or self.text("api") or self.text("mechanism")

    @property
    def resource(self) -> str:
        kind = self.text("resource").lower().replace("_", "-")
        return f"{kind}:{self.text('name')}" if kind else ""

    @property
    def outcome(self) -> str:
        """The rule that decided, the errors of a change, or the reason why a log-in failed."""
        errors = self.fields.get("errors")
        if isinstance(errors, list):
            return ", ".join(str(each) for each in errors) or "done"
        return self.text("rule") or self.text("reason")

    @property
    def request(self) -> str:
        """The request of a change as JSON; empty for other events."""
        found = self.fields.get("request")
        return "" if found is None else json.dumps(found, ensure_ascii=False)


def parse_event(line: bytes) -> AuditEvent | None:
    """The event of a line; None if it is not a line of an audit log."""
    try:
        found = json.loads(line)
        time_ms = round(datetime.fromisoformat(found["time"]).timestamp() * 1000)
        return AuditEvent(
            time_ms,
            str(found["event"]),
            str(found["principal"]),
            str(found["host"]),
            str(found["node"]),
            {name: value for name, value in found.items() if name not in _OWN_FIELDS},
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


class AuditFilter(NamedTuple):
    """Texts match if they are contained, in any case; empty ones match everything."""

    principal: str = ""
    operation: str = ""
    resource: str = ""
    decision: str = ""
    """Exactly this decision."""
    from_ms: int | None = None
    to_ms: int | None = None

    def matches(self, event: AuditEvent) -> bool:
        return (
            self.decision in ("", event.decision)
            and (self.from_ms is None or event.time_ms >= self.from_ms)
            and (self.to_ms is None or event.time_ms < self.to_ms)
            and self.principal.lower() in event.principal.lower()
            and _plain(self.operation) in _plain(event.operation)
            and self._matches_resource(event)
        )

    def _matches_resource(self, event: AuditEvent) -> bool:
        wanted = self.resource.lower()
        if not wanted or wanted in event.resource.lower():
            return True
        # A change names its resources in the request, by their names alone.
        return event.decision == "change" and wanted.rpartition(":")[2] in event.request.lower()


def _plain(operation: str) -> str:
    """``describe-configs``, ``DESCRIBE_CONFIGS`` and ``DescribeConfigs`` are the same."""
    return operation.lower().replace("-", "").replace("_", "")
