"""The console as an ASGI application: routes, guard and background tasks."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from ruslo.console.console import Console, console_of
from ruslo.console.error_texts import error_text, http_status, parent_page
from ruslo.console.forms import FormError
from ruslo.console.guard import Guard
from ruslo.console.openid import openid_logins
from ruslo.console.pages import (
    acls,
    audit,
    brokers,
    configs,
    groups,
    login,
    messages,
    openid_login,
    overview,
    pipelines,
    produce,
    quotas,
    topics,
    transactions,
    users,
)
from ruslo.console.pages import dead_letters as dead_letters
from ruslo.console.pages import group_reset as reset
from ruslo.console.pages import topic_forms as forms
from ruslo.console.render import STATIC
from ruslo.console.request_target import requested_path
from ruslo.console.settings import CALLBACK_PATH, ConsoleSettings
from ruslo.model.errors import RusloError

_PAGE_TIMEOUT_S = 20.0
_log = logging.getLogger(__name__)

Endpoint = Callable[[Request], Awaitable[Response]]


def build_app(settings: ConsoleSettings) -> Starlette:
    console = Console(settings)
    app = Starlette(
        routes=[*_ROUTES, Mount("/static", _CachedFiles(directory=STATIC))],
        middleware=[Middleware(Guard, settings=settings, sessions=console.sessions)],
        exception_handlers={
            RusloError: _on_problem,
            TimeoutError: _on_problem,
            HTTPException: _on_http_error,
            Exception: _on_bug,
        },
        lifespan=_lifespan,
    )
    app.state.console = console
    app.state.openid = openid_logins(settings)
    return app


@contextlib.asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    console: Console = app.state.console
    # Users who log in have consoles of their own; this one then only shows the login page.
    if not console.settings.login.is_by_user:
        console.start()
    watch = asyncio.create_task(console.users.run())
    try:
        yield
    finally:
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)
        await console.users.close_all()
        await console.close()


class _CachedFiles(StaticFiles):
    """Static files. Their URLs have a fingerprint, so browsers may cache them."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        return response


def _page(path: str, endpoint: Endpoint, *, posts: bool = False) -> Route:
    """A page with a time limit."""

    async def bounded(request: Request) -> Response:
        console_of(request).sampler.note_visit()
        async with asyncio.timeout(_PAGE_TIMEOUT_S):
            return await endpoint(request)

    return Route(path, bounded, methods=["GET", "POST"] if posts else ["GET"])


def _form(path: str, endpoint: Endpoint) -> Route:
    return _page(path, endpoint, posts=True)


def _events(path: str, endpoint: Endpoint) -> Route:
    return Route(path, endpoint, methods=["GET"])


async def _alive(request: Request) -> Response:
    return PlainTextResponse("alive\n")


async def _on_problem(request: Request, error: Exception) -> Response:
    status = 422 if isinstance(error, FormError) else http_status(error)
    return _problem_page(request, status, error_text(error))


async def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    text = "This page does not exist." if error.status_code == 404 else str(error.detail)
    return _problem_page(request, error.status_code, text)


async def _on_bug(request: Request, error: Exception) -> Response:
    _log.error("%s %s failed", request.method, requested_path(request), exc_info=error)
    text = "The console failed: see its log for the error."
    return _problem_page(request, 500, text)


def _problem_page(request: Request, status: int, text: str) -> Response:
    return console_of(request).page(
        request,
        "problem.html",
        status=status,
        heading={403: "Not authorized", 404: "Not found"}.get(status, "The request failed"),
        reason=text,
        parent_page=parent_page(requested_path(request)),
    )


_TOPIC = "/topics/{topic}"
_RECORD = _TOPIC + "/messages/{partition:int}/{offset:int}"
_ROUTES = [
    _page("/", overview.overview),
    _events("/live", overview.live),
    Route("/alive", _alive),
    _form("/login", login.login),
    _page("/login/oidc", openid_login.begin),
    _page(CALLBACK_PATH, openid_login.callback),
    _form("/logout", login.logout),
    _page("/topics", topics.topics),
    _form("/topics/new", forms.create),
    _page(_TOPIC, topics.topic),
    _events(_TOPIC + "/live", topics.live),
    _page(_TOPIC + "/groups", topics.topic_groups),
    _form(_TOPIC + "/config", configs.topic_config),
    _form(_TOPIC + "/partitions", forms.add_partitions),
    _form(_TOPIC + "/empty", forms.empty),
    _form(_TOPIC + "/delete", forms.delete),
    _page(_TOPIC + "/messages", messages.messages),
    _page(_TOPIC + "/messages.jsonl", messages.download_many),
    _events(_TOPIC + "/tail", messages.tail),
    _page(_RECORD, messages.message),
    _page(_RECORD + "/download", messages.download),
    _form(_TOPIC + "/produce", produce.produce),
    _form("/local" + _TOPIC + "/schema", messages.set_schema),
    _page("/groups", groups.groups),
    _page("/group", groups.group),
    _events("/group/live", groups.live),
    _form("/group/reset", reset.reset),
    _form("/group/delete", groups.delete),
    _page("/brokers", brokers.brokers),
    _page("/brokers/{node:int}", brokers.broker),
    _form("/brokers/{node:int}/config", configs.broker_config),
    _page("/transactions", transactions.transactions),
    _form("/transactions/abort", transactions.abort),
    _form("/transactions/end-hanging", transactions.end_hanging),
    _page("/pipelines", pipelines.pipelines),
    _form("/pipelines/stop", pipelines.stop),
    _form("/dead-letters/replay", dead_letters.replay),
    _page("/security", users.security),
    _page("/security/users", users.users),
    _form("/security/users/password", users.set_password),
    _form("/security/users/delete", users.delete),
    _page("/security/acls", acls.acls),
    _form("/security/acls/new", acls.create),
    _form("/security/acls/delete", acls.delete),
    _page("/security/explain", acls.explain_decision),
    _page("/security/quotas", quotas.quotas),
    _form("/security/quotas/set", quotas.set_quota),
    _form("/security/quotas/remove", quotas.remove),
    _page("/security/audit", audit.audit),
    _events("/security/audit/tail", audit.tail),
]
