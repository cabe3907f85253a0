"""Checks every request before a page handles it.

- The Host header must be an allowed name or an address. This defeats DNS rebinding, where the name of another
  site resolves to this machine.
- If a password is set, the client must log in; programs send ``Authorization: Bearer``.
- Requests other than GET and HEAD must have the form token of their session and come from this origin.
- With ``--read-only`` they are rejected, unless they change only the console's own memory.
- Bodies are limited and parsed here, so no page can skip these checks. Before a login the limit is small.
- Every response forbids scripts, styles and frames of other origins.
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
from ruslo.console.password_attempts import CHECK_INTERVAL_S, TooManyAttempts
from ruslo.console.request_target import client_address, path_and_query, requested_host, requested_path
from ruslo.console.sessions import Sessions
from ruslo.console.settings import CALLBACK_PATH, ConsoleSettings

MAX_BODY_BYTES = 4 * 1024 * 1024
MAX_FIELDS = 2000
"""The form of a broker's configs has a few hundred fields."""
MAX_LOGIN_BODY_BYTES = 8 * 1024
MAX_LOGIN_FIELDS = 10
LOCAL = "/local/"
"""The prefix of forms that do not change the cluster."""
_PARSE_INLINE_MAX_BYTES = 64 * 1024
_PUBLIC_PATHS = ("/login", "/login/oidc", CALLBACK_PATH, "/alive")
_PUBLIC_PREFIX = "/static/"
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
                # Browsers do not send their cookie along with a redirect from the identity provider. A
                # redirect that does not log in must not replace the cookie: it may be forged.
                if kept != known and not (kept == session_id and requested_path(request) == CALLBACK_PATH):
                    headers.append(
                        "Set-Cookie",
                        f"{cookie_name}={kept}; Path=/; HttpOnly; SameSite=Strict; Max-Age=86400"
                        + ("; Secure" if self._settings.is_https else ""),
                    )
            await send(message)

        state = scope.setdefault("state", {})
        state |= {
            "session_id": session_id,
            "form_token": self._sessions.form_token(session_id),
            "form": Form({}),
        }
        try:
            rejection = await self._check(request, session_id)
        except ClientDisconnect:
            return
        if rejection is not None:
            await rejection(scope, receive, send_guarded)
        else:
            await self._app(scope, receive, send_guarded)

    async def _check(self, request: Request, session_id: str) -> Response | None:
        """The response that rejects the request; None if it is allowed. Parses the form."""
        headers = request.headers
        if not self._is_allowed_host(requested_host(request)):
            return _reject(
                HTTPStatus.MISDIRECTED_REQUEST,
                "This console does not accept that host name. Use its IP address or localhost, or start the "
                "console with --host-name.",
            )
        path = requested_path(request)
        if not path.startswith("/"):
            return _reject(HTTPStatus.BAD_REQUEST, "Request a path of this console: it is not a proxy.")
        trusted, bearer = True, False
        if self._sessions.needs_login:
            try:
                bearer = await self._has_bearer(request)
            except TooManyAttempts:
                return _reject(
                    HTTPStatus.TOO_MANY_REQUESTS,
                    "Too many login attempts. Wait a few seconds and try again.",
                    {"Retry-After": str(round(CHECK_INTERVAL_S))},
                )
            trusted = bearer or self._sessions.is_logged_in(session_id)
            if not trusted and path not in _PUBLIC_PATHS and not path.startswith(_PUBLIC_PREFIX):
                if request.method == "GET" and "text/html" in headers.get("accept", ""):
                    return RedirectResponse(_login_for(request), HTTPStatus.SEE_OTHER)
                return _reject(
                    HTTPStatus.UNAUTHORIZED,
                    "Log in first, or send Authorization: Bearer PASSWORD."
                    if self._sessions.has_password
                    else "Log in first.",
                )
        if request.method in _SAFE_METHODS:
            return None
        if not bearer and not _is_same_origin(headers):
            return _reject(
                HTTPStatus.FORBIDDEN, "Forms of other sites are rejected. Use the console's own pages."
            )
        max_bytes = MAX_BODY_BYTES if trusted else MAX_LOGIN_BODY_BYTES
        max_fields = MAX_FIELDS if trusted else MAX_LOGIN_FIELDS
        form = await _read_form(request, max_bytes, max_fields)
        if form is None:
            return _reject(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"The form is too large. Send at most {max_bytes} bytes and {max_fields} fields.",
            )
        token = headers.get("x-form-token") or form.text("form_token")
        if not bearer and not self._sessions.is_form_token(session_id, token):
            return _reject(
                HTTPStatus.FORBIDDEN,
                "The form has expired, or is not from this console. Reload the page and submit it again.",
            )
        if self._settings.read_only and not path.startswith((LOCAL, "/login", "/logout")):
            return _reject(
                HTTPStatus.FORBIDDEN,
                "This console is read-only. Restart it without --read-only to make changes.",
            )
        request.scope["state"]["form"] = form
        return None

    async def _has_bearer(self, request: Request) -> bool:
        scheme, _, password = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not self._sessions.has_password:
            return False
        # Headers are Latin-1; the password is UTF-8 elsewhere.
        text = password.strip().encode("latin-1").decode(errors="replace")
        return await self._sessions.is_password(text, client_address(request))

    def _is_allowed_host(self, host: str | None) -> bool:
        if host is None:
            return False
        if host in ("localhost", self._settings.host, *map(str.lower, self._settings.host_names)):
            return True
        try:
            # An address cannot be rebound.
            ipaddress.ip_address(host)
        except ValueError:
            return False
        return True


def _login_for(request: Request) -> str:
    """The login page, which redirects to the requested page."""
    wanted = path_and_query(request)
    return "/login" if wanted == "/" else f"/login?{urlencode({'next': wanted})}"


def _is_same_origin(headers: Headers) -> bool:
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    try:
        return origin is None or urlsplit(origin).netloc == headers.get("host")
    except ValueError:  # an unclosed bracket
        return False


async def _read_form(request: Request, max_bytes: int, max_fields: int) -> Form | None:
    """Read the form; None if it is too large. Content-Length is checked before the body is read."""
    content_length = request.headers.get("content-length", "")
    if content_length.isdecimal() and (len(content_length) > 12 or int(content_length) > max_bytes):
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
    # Megabytes of %41 take seconds to decode, so other requests are served meanwhile.
    return await asyncio.to_thread(_parse_form, body)


def _parse_form(body: bytearray) -> Form:
    pairs: dict[str, list[str]] = {}
    for name, value in parse_qsl(body.decode(errors="replace"), keep_blank_values=True):
        pairs.setdefault(name, []).append(value)
    return Form(pairs)


def _reject(status: HTTPStatus, text: str, headers: dict[str, str] | None = None) -> Response:
    return PlainTextResponse(text + "\n", status, headers)
