"""The state that all pages share."""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from ruslo.client.admin.admin import Admin
from ruslo.client.settings.channel_security import channel_security
from ruslo.client.views.broker_metrics import BrokerMetrics
from ruslo.client.views.txn_abort_plan import AbortRefused
from ruslo.console.confirmation import Preview
from ruslo.console.error_texts import error_text
from ruslo.console.forms import Form, FormError
from ruslo.console.lag_history import LagHistory
from ruslo.console.messages.avro import AvroSchemas
from ruslo.console.render import Renderer
from ruslo.console.sampler import Sampler
from ruslo.console.sessions import Sessions
from ruslo.console.settings import ConsoleSettings, Login
from ruslo.console.user_consoles import UserConsoles
from ruslo.model.errors import KafkaError
from ruslo.model.secret import Secret
from ruslo.net.channel import ChannelSettings
from ruslo.net.sasl.mechanism import AuthenticationFailed

CONNECTIONS = ChannelSettings(
    client_id="ruslo-console",
    connect_timeout_ms=3_000,
    request_timeout_ms=8_000,
    max_response_bytes=96 * 1024 * 1024,
)
API_TIMEOUT_MS = 6_000
WATCHER_TIMEOUT_MS = 2_000
_FLASHES_MAX = 200


class Flash(NamedTuple):
    """A message about a completed change, shown once on the next page."""

    text: str
    good: bool


def _no_token() -> Secret:
    raise AuthenticationFailed("no user is logged in")


class FormResult:
    """What a form led to: the preview of its change, or an error that was raised in the ``with`` block."""

    def __init__(self) -> None:
        self.preview: Preview | None = None
        self.error: str | None = None

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, FormError | KafkaError | AbortRefused):
            return False
        self.error = error_text(error)
        return True


class Console:
    """Everything of it goes over connections of one principal: the console's own, or that of a user."""

    def __init__(
        self,
        settings: ConsoleSettings,
        shared: Console | None = None,
        user: str | None = None,
        token: Callable[[], Secret] | None = None,
    ) -> None:
        """``shared``: the console of the process, if this one belongs to a user of the cluster.

        ``token`` returns the access token of the user, with ``--login oidc``.
        """
        self.settings = settings
        self.user = user
        self.sessions: Sessions = (
            Sessions(settings.password, by_user=settings.login.is_by_user)
            if shared is None
            else shared.sessions
        )
        self.users: UserConsoles[Console] = (
            UserConsoles(self.sessions.log_out) if shared is None else shared.users
        )
        """The consoles of the users who are logged in, with ``--login sasl`` and ``--login oidc``."""
        # Without a user this console only shows the login page: it must not reach the cluster.
        is_login_only = settings.login is Login.SASL and user is None
        own = settings.of_user("", Secret("")) if is_login_only else settings
        if settings.login is Login.OIDC and token is None:
            token = _no_token
        self.token = token
        self._connections = CONNECTIONS._replace(security=channel_security(own.security, token=token))
        self.admin = self.new_admin()
        # Separate connections: pages do not wait for its large responses, and it times out sooner.
        self.watcher = self.new_admin(WATCHER_TIMEOUT_MS)
        self.sampler = Sampler(self.watcher)
        self.lags = LagHistory(self.admin, self.sampler)
        self.metrics = BrokerMetrics(self.watcher)
        self.renderer = Renderer(settings, self.sessions.needs_login, user)
        self.schemas = AvroSchemas()
        self._flashes: OrderedDict[str, Flash] = OrderedDict()
        self._tasks: list[asyncio.Task[None]] = []

    def new_admin(self, api_timeout_ms: int = API_TIMEOUT_MS) -> Admin:
        """Connections of their own, of the console's principal."""
        return Admin(self.settings.bootstrap, settings=self._connections, api_timeout_ms=api_timeout_ms)

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self.sampler.run()), asyncio.create_task(self.lags.run())]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.admin.cluster.close()
        await self.watcher.cluster.close()

    def page(self, request: Request, template: str, *, status: int = 200, **values: object) -> HTMLResponse:
        flash = self._flashes.pop(request.query_params.get("flash", ""), None)
        return self.renderer.page(
            request, template, status=status, flash=flash, problem=self.sampler.problem, **values
        )

    def form_page(
        self,
        request: Request,
        template: str,
        result: FormResult,
        **values: object,
    ) -> HTMLResponse:
        """A page with a form, and the preview of its change or the error in its fields."""
        status, preview, error = 422 if result.error else 200, result.preview, result.error
        return self.page(request, template, status=status, preview=preview, form_error=error, **values)

    def done(self, path: str, text: str, *, good: bool = True) -> Response:
        """Redirect to a page that shows a message; a reload does not repeat the change."""
        key = secrets.token_urlsafe(9)
        self._flashes[key] = Flash(text, good)
        while len(self._flashes) > _FLASHES_MAX:
            self._flashes.popitem(last=False)
        return RedirectResponse(f"{path}{'&' if '?' in path else '?'}flash={key}", 303)


def console_of(request: Request) -> Console:
    """The console of the user who is logged in, or of all users."""
    console = request.app.state.console
    assert isinstance(console, Console)
    return console.users.of(request.state.session_id) or console


def form_of(request: Request) -> Form:
    """The posted form, which the guard has parsed."""
    form = request.state.form
    assert isinstance(form, Form)
    return form
