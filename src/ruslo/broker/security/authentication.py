"""What a node does when clients log in: log lines, the audit log, the delay of a failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ruslo.broker.requests.request_summary import shortened
from ruslo.broker.scheduling.background_tasks import BackgroundTasks

if TYPE_CHECKING:
    from ruslo.net.connection import Connection


class LoginAudit(Protocol):
    def logged_in(self, connection: Connection, mechanism: str) -> None: ...

    def login_failed(self, connection: Connection, mechanism: str, reason: str) -> None: ...


class Authentication:
    def __init__(self, failure_delay_s: float, audit: LoginAudit) -> None:
        self.failure_delay_s = failure_delay_s
        self._audit = audit
        self.tasks = BackgroundTasks()

    def succeeded(self, connection: Connection) -> None:
        self._audit.logged_in(connection, _mechanism(connection))

    def failed(self, connection: Connection, reason: str) -> None:
        mechanism, reason = _mechanism(connection), shortened(reason)
        connection.login_failed(mechanism, reason)
        self._audit.login_failed(connection, mechanism, reason)


def _mechanism(connection: Connection) -> str:
    return "" if connection.exchange is None else connection.exchange.mechanism_name
