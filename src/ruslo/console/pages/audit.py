"""The audit log: what brokers denied and changed, and who logged in."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response

from ruslo.client.views.position import AtTime, parse_position
from ruslo.console.audit.events import DECISIONS, AuditFilter
from ruslo.console.audit.following import FollowedLog, read_new
from ruslo.console.audit.search import AuditPage, search
from ruslo.console.console import Console, console_of
from ruslo.console.events import event, stream
from ruslo.console.forms import Form, FormError
from ruslo.console.security_lists import not_authorized
from ruslo.model.acls import Operation
from ruslo.model.errors import ErrorCode, KafkaError

_PER_PAGE = 100
_TAIL_INTERVAL_S = 0.5
_TAIL_ROWS_MAX = 50
_AUTHORIZATION_INTERVAL_S = 10.0
"""How often a live page asks again whether its user may see the log."""
PATH = "/security/audit"


async def audit(request: Request) -> Response:
    console, query = console_of(request), Form.of_query(request.query_params)
    _require_log(console)
    found, form_error, status = AuditPage(), None, 200
    unavailable = await _refusal(console)
    if unavailable is not None:
        status = 403
    else:
        try:
            wanted = _filter(query)
            found = await asyncio.to_thread(
                search, console.settings.audit_logs, wanted, _PER_PAGE, query.text("at")
            )
        except FormError as error:
            form_error, status = str(error), 422
    return console.page(
        request,
        "audit.html",
        status=status,
        query=query,
        found=found,
        events=found.events,
        decisions=DECISIONS,
        form_error=form_error,
        unavailable=unavailable,
    )


def _require_log(console: Console) -> None:
    if not console.settings.audit_logs:
        raise KafkaError(
            ErrorCode.RESOURCE_NOT_FOUND,
            "the console has no audit log. Start it with --audit-log FILE, the file of ruslo.audit.log",
        )


async def _refusal(console: Console) -> str | None:
    """Why the user may not see the audit log; None if it is shown."""
    if not console.settings.login.is_by_user:
        return None
    operations = await console.admin.brokers.authorized_operations()
    return None if Operation.ALTER in operations else not_authorized("see the audit log", "alter")


def _filter(query: Form) -> AuditFilter:
    return AuditFilter(
        query.text("principal"),
        query.text("operation"),
        query.text("resource"),
        query.choice("decision", DECISIONS, ""),
        _time_ms(query, "from", "From"),
        _time_ms(query, "to", "To"),
    )


def _time_ms(query: Form, name: str, label: str) -> int | None:
    text = query.text(name)
    if not text:
        return None
    try:
        position = parse_position(text)
    except ValueError:
        position = None
    if not isinstance(position, AtTime):
        raise FormError(f"{label}: {text!r} is not a time. Enter 2h (ago) or 2026-03-01T10:00Z.")
    return position.timestamp_ms


async def tail(request: Request) -> Response:
    return stream(_arriving(request))


async def _arriving(request: Request) -> AsyncIterator[str]:
    console, query = console_of(request), Form.of_query(request.query_params)
    _require_log(console)
    wanted = _filter(query)._replace(from_ms=None, to_ms=None)
    logs = [FollowedLog(path) for path in console.settings.audit_logs]
    authorized_until_s = 0.0
    while True:
        if time.monotonic() >= authorized_until_s:
            refusal = await _refusal(console)
            if refusal is not None:
                yield event("problem", refusal)
                return
            authorized_until_s = time.monotonic() + _AUTHORIZATION_INTERVAL_S
        found = [each for each in await asyncio.to_thread(read_new, logs) if wanted.matches(each)]
        shown = found[:_TAIL_ROWS_MAX]
        html = console.renderer.text(request, "_audit_rows.html", events=shown, is_new=True) if shown else ""
        # Empty ones, too: they detect a browser that is gone.
        yield event("rows", {"count": len(found), "skipped": len(found) - len(shown), "html": html})
        await asyncio.sleep(_TAIL_INTERVAL_S)
