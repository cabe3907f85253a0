"""The state that all pages share."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from ruslo.client.admin.admin import Admin
from ruslo.client.views.txn_abort_plan import AbortRefused
from ruslo.console.confirmation import Preview
from ruslo.console.error_texts import error_text
from ruslo.console.forms import Form, FormError
from ruslo.console.lag_history import LagHistory
from ruslo.console.messages.avro import AvroSchemas
from ruslo.console.render import Renderer
from ruslo.console.sampler import Sampler
from ruslo.console.sessions import Sessions
from ruslo.console.settings import ConsoleSettings
from ruslo.model.errors import KafkaError
from ruslo.net.channel import ChannelSettings

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
    def __init__(self, settings: ConsoleSettings) -> None:
        self.settings = settings
        self.sessions = Sessions(settings.password)
        self.admin = Admin(settings.bootstrap, settings=CONNECTIONS, api_timeout_ms=API_TIMEOUT_MS)
        # Separate connections: pages do not wait for its large responses, and it times out sooner.
        self.watcher = Admin(settings.bootstrap, settings=CONNECTIONS, api_timeout_ms=WATCHER_TIMEOUT_MS)
        self.sampler = Sampler(self.watcher)
        self.lags = LagHistory(self.admin, self.sampler)
        self.renderer = Renderer(settings, self.sessions.needs_login)
        self.schemas = AvroSchemas()
        self._flashes: OrderedDict[str, Flash] = OrderedDict()

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
    console = request.app.state.console
    assert isinstance(console, Console)
    return console


def form_of(request: Request) -> Form:
    """The posted form, which the guard has parsed."""
    form = request.state.form
    assert isinstance(form, Form)
    return form
