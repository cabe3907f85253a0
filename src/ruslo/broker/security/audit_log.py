"""The audit log: one JSON object per line, about denials, log-ins and administrative changes.

A denied client tends to repeat its request, so a line about the same client, operation and resource is
written at most once a minute. What was left out is counted in the next one.
"""

from __future__ import annotations

import hashlib
import json
import logging
import logging.handlers
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ruslo.broker.requests.request_summary import shortened
from ruslo.machines.authorizer import Decision
from ruslo.model.acls import Operation, ResourceType
from ruslo.model.clock import Clock
from ruslo.model.principals import Principal
from ruslo.net.log_throttle import LogThrottle

if TYPE_CHECKING:
    from ruslo.broker.security.authorization import PrincipalAccess
    from ruslo.net.connection import Connection

NODE_LOG = "-"
REPEAT_INTERVAL_S = 60.0
MAX_SILENCED = 10_000


class AuditLog:
    def __init__(self, path: str, clock: Clock, node_id: int, *, with_allowed: bool = False) -> None:
        """``path``: empty for no audit log, ``-`` for the log of the node."""
        self._clock = clock
        self._node_id = node_id
        self._with_allowed = with_allowed
        self._throttle = LogThrottle(REPEAT_INTERVAL_S, MAX_SILENCED)
        self._logger = logging.getLogger(f"ruslo.audit.{node_id}")
        self.enabled = bool(path)
        self._handler: logging.Handler | None = None
        if self.enabled and path != NODE_LOG:
            # It reopens the file when logrotate has moved it away.
            self._handler = logging.handlers.WatchedFileHandler(path, encoding="utf-8")
            self._handler.setFormatter(logging.Formatter("%(message)s"))
            self._logger.addHandler(self._handler)
            self._logger.propagate = False
            self._logger.setLevel(logging.INFO)

    def close(self) -> None:
        if self._handler is not None:
            self._logger.removeHandler(self._handler)
            self._handler.close()

    def decided(
        self,
        access: PrincipalAccess,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
        api: str,
        decision: Decision,
    ) -> None:
        if not self.enabled or (decision.allowed and not self._with_allowed):
            return
        self._write(
            "allowed" if decision.allowed else "denied",
            access.principal,
            access.host,
            api=api,
            operation=operation.name,
            resource=resource_type.name,
            name=name,
            rule=str(decision.rule),
        )

    def logged_in(self, connection: Connection, mechanism: str) -> None:
        if self.enabled:
            self._write("login", connection.principal, connection.peer_host, mechanism=mechanism)

    def login_failed(self, connection: Connection, mechanism: str, reason: str) -> None:
        if self.enabled:
            self._write(
                "login failed", connection.principal, connection.peer_host, mechanism=mechanism, reason=reason
            )

    def changed(
        self,
        principal: Principal,
        host: str,
        client_id: str | None,
        api: str,
        request: dict[str, Any],
        errors: list[str],
    ) -> None:
        """An administrative request was answered; ``errors`` are the names of its error codes."""
        if self.enabled:
            self._write(
                "change", principal, host, api=api, client_id=client_id, request=request, errors=errors,
                repeats=True,
            )  # fmt: skip

    def _write(
        self, event: str, principal: Principal, host: str, *, repeats: bool = False, **fields: Any
    ) -> None:
        """``repeats``: each event is written, even if it is the same as one before."""
        now_s = self._clock.monotonic_ms() / 1000
        suppressed = dict(self._throttle.end_intervals(now_s))
        if not repeats:
            fields = {
                name: shortened(value) if isinstance(value, str) else value for name, value in fields.items()
            }
        # The log may have to remember thousands of them.
        key = hashlib.sha256(f"{event} {principal} {host} {fields}".encode("utf-8", "replace")).hexdigest()
        if not repeats and not self._throttle.admits(key, now_s):
            return
        line = {
            "time": datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC).isoformat(
                timespec="milliseconds"
            ),
            "node": self._node_id,
            "event": event,
            "principal": str(principal),
            "host": host,
            **{name: value for name, value in fields.items() if value is not None},
        }
        if key in suppressed:
            line["repeated"] = suppressed[key]
        self._logger.info("%s", json.dumps(line, ensure_ascii=False))
