"""Every request passes here first: may it come, from where, and may it change anything?

- The Host header must be a name of ours or an address. A page of somebody else, whose name suddenly resolves
  to this machine (DNS rebinding), gets nothing.
- With a password nobody gets further without a login; programs send it as ``Authorization: Bearer``.
- Whatever is not GET or HEAD carries the token of its session's forms, and comes from a page of ours.
- With ``--read-only`` it is refused, unless it changes nothing but this console's own memory.
- Bodies are bounded and parsed here, so that no page can forget any of this. Before a login they are short.
- Every answer forbids scripts, styles and frames that are not ours.
"""

from __future__ import annotations

import asyncio
import ipaddress
from http import HTTPStatus
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ruslo.console.forms import Form
from ruslo.console.guesses import CHECK_INTERVAL_S, TooManyAttempts
from ruslo.console.requested import client_address, path_and_query, requested_host, requested_path
from ruslo.console.sessions import Sessions
from ruslo.console.settings import ConsoleSettings

MAX_BODY_BYTES = 4 * 1024 * 1024
MAX_FIELDS = 2000
"""A form for the settings of a broker has a few hundred."""
MAX_LOGIN_BODY_BYTES = 8 * 1024
MAX_LOGIN_FIELDS = 10
LOCAL = "/local/"
"""Below it are forms that change nothing in the cluster."""
_PARSE_INLINE_MAX_BYTES = 64 * 1024
_OPEN_PATHS = ("/login", "/alive")
_OPEN_BELOW = "/static/"
_SAFE_METHODS = ("GET", "HEAD")

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Guard:
    def __init__(self, app: ASGIApp, settings: ConsoleSettings, sessions: Sessions) -> None:
        self._app = app
        self._settings = settings
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        cookie_name = f"ruslo_console_{self._settings.port}"
        known = request.cookies.get(cookie_name, "")
        session_id = known if self._sessions.is_id(known) else self._sessions.new_id()

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                if "cache-control" not in headers:
                    headers["Cache-Control"] = "no-store"
                kept = scope["state"]["session_id"]
                if kept != known:
                    headers.append(
                        "Set-Cookie",
                        f"{cookie_name}={kept}; Path=/; HttpOnly; SameSite=Strict; Max-Age=86400",
                    )
            await send(message)

        state = scope.setdefault("state", {})
        state |= {
            "session_id": session_id,
            "form_token": self._sessions.form_token(session_id),
            "form": Form({}),
        }
        try:
            refusal = await self._refusal(request, session_id)
        except ClientDisconnect:
            return  # in the middle of a form
        if refusal is not None:
            await refusal(scope, receive, send_guarded)
        else:
            await self._app(scope, receive, send_guarded)

    async def _refusal(self, request: Request, session_id: str) -> Response | None:
        """Why the request may not pass; None when it may. Parses the form on the way."""
        headers = request.headers
        if not self._is_our_name(requested_host(request)):
            return _refuse(
                HTTPStatus.MISDIRECTED_REQUEST,
                "This console does not answer to that host name. Call it by its address or as localhost, "
                "or start it with --host-name.",
            )
        path = requested_path(request)
        if not path.startswith("/"):
            return _refuse(HTTPStatus.BAD_REQUEST, "Ask for a path of this console: it is not a proxy.")
        trusted, bearer = True, False
        if self._sessions.needs_login:
            try:
                bearer = await self._has_bearer(request)
            except TooManyAttempts:
                return _refuse(
                    HTTPStatus.TOO_MANY_REQUESTS,
                    "Too many passwords are tried at once. Wait a few seconds and try again.",
                    {"Retry-After": str(round(CHECK_INTERVAL_S))},
                )
            trusted = bearer or self._sessions.is_logged_in(session_id)
            if not trusted and path not in _OPEN_PATHS and not path.startswith(_OPEN_BELOW):
                if request.method == "GET" and "text/html" in headers.get("accept", ""):
                    return RedirectResponse(_login_for(request), HTTPStatus.SEE_OTHER)
                return _refuse(
                    HTTPStatus.UNAUTHORIZED, "Log in first, or send Authorization: Bearer PASSWORD."
                )
        if request.method in _SAFE_METHODS:
            return None
        if not bearer and not _comes_from_us(headers):
            return _refuse(HTTPStatus.FORBIDDEN, "Forms of other sites are not taken.")
        max_bytes = MAX_BODY_BYTES if trusted else MAX_LOGIN_BODY_BYTES
        max_fields = MAX_FIELDS if trusted else MAX_LOGIN_FIELDS
        form = await _read_form(request, max_bytes, max_fields)
        if form is None:
            return _refuse(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"The form is too large. Send at most {max_bytes} bytes and {max_fields} fields.",
            )
        token = headers.get("x-form-token") or form.text("form_token")
        if not bearer and not self._sessions.is_form_token(session_id, token):
            return _refuse(
                HTTPStatus.FORBIDDEN,
                "The form is too old or not of this console: load the page again and repeat it.",
            )
        if self._settings.read_only and not path.startswith((LOCAL, "/login", "/logout")):
            return _refuse(HTTPStatus.FORBIDDEN, "This console is read-only: it changes nothing.")
        request.scope["state"]["form"] = form
        return None

    async def _has_bearer(self, request: Request) -> bool:
        scheme, _, password = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return False
        # Headers come as Latin-1; a password is UTF-8 wherever else it comes from.
        text = password.strip().encode("latin-1").decode(errors="replace")
        return await self._sessions.is_password(text, client_address(request))

    def _is_our_name(self, host: str | None) -> bool:
        if host is None:
            return False
        if host in ("localhost", self._settings.host, *map(str.lower, self._settings.host_names)):
            return True
        try:
            # An address cannot be rebound: whoever has a page there has the machine.
            ipaddress.ip_address(host)
        except ValueError:
            return False
        return True


def _login_for(request: Request) -> str:
    """The page that is asked for comes after the login."""
    wanted = path_and_query(request)
    return "/login" if wanted == "/" else f"/login?{urlencode({'next': wanted})}"


def _comes_from_us(headers: Headers) -> bool:
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    try:
        return origin is None or urlsplit(origin).netloc == headers.get("host")
    except ValueError:  # A bracket that nothing closes.
        return False


async def _read_form(request: Request, max_bytes: int, max_fields: int) -> Form | None:
    """None when it is too large. What the client announces is looked at before anything is read."""
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and (len(announced) > 12 or int(announced) > max_bytes):
        return None
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > max_bytes:
            return None
    if body.count(b"&") >= max_fields:
        return None
    if len(body) <= _PARSE_INLINE_MAX_BYTES:
        return _parse_form(body)
    # Megabytes of %41 take seconds to decode; other requests are answered meanwhile.
    return await asyncio.to_thread(_parse_form, body)


def _parse_form(body: bytearray) -> Form:
    pairs: dict[str, list[str]] = {}
    for name, value in parse_qsl(body.decode(errors="replace"), keep_blank_values=True):
        pairs.setdefault(name, []).append(value)
    return Form(pairs)


def _refuse(status: HTTPStatus, text: str, headers: dict[str, str] | None = None) -> Response:
    return PlainTextResponse(text + "\n", status, headers)
