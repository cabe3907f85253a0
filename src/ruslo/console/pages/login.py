"""Log in and out: with the console's password, or with the password of a user of the cluster."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ruslo.console.console import Console, console_of, form_of
from ruslo.console.forms import Form
from ruslo.console.password_attempts import TooManyAttempts
from ruslo.console.render import link
from ruslo.console.request_target import client_address
from ruslo.console.settings import Login
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.secret import Secret

REFUSED = (ErrorCode.SASL_AUTHENTICATION_FAILED, ErrorCode.ILLEGAL_SASL_STATE)


async def login(request: Request) -> Response:
    console = console_of(request)
    after = local_path(request.query_params.get("next", ""))
    if not console.sessions.needs_login or (
        request.method == "GET" and console.sessions.is_logged_in(request.state.session_id)
    ):
        return RedirectResponse(after, 303)
    form_error, status = None, 200
    if request.method == "POST" and console.settings.login is not Login.OIDC:
        try:
            session_id = await _log_in(console, form_of(request), client_address(request))
        except TooManyAttempts:
            form_error, status = "Too many login attempts. Wait a few seconds and try again.", 429
        else:
            if session_id is not None:
                request.state.session_id = session_id
                return RedirectResponse(after, 303)
            wrong = "user or password" if console.settings.login is Login.SASL else "password"
            form_error, status = f"The {wrong} is wrong. Try again.", 401
    return login_page(request, after, form_error, status)


def login_page(request: Request, after: str, form_error: str | None = None, status: int = 200) -> Response:
    """``after``: the page to show after the login."""
    console = console_of(request)
    openid = console.settings.openid
    path = "/login/oidc" if console.settings.login is Login.OIDC else "/login"
    return console.page(
        request,
        "login.html",
        status=status,
        form_error=form_error,
        end_reason=None if form_error else console.sessions.end_reason(request.state.session_id),
        provider=None if openid is None else urlsplit(openid.issuer).hostname,
        action=link(path, next="" if after == "/" else after),
    )


async def _log_in(console: Console, form: Form, address: str) -> str | None:
    """The id of the new session; None if the password is wrong."""
    password = form.raw("password")
    if console.settings.login is not Login.SASL:
        return await console.sessions.log_in(password, address)
    user = form.text("user")
    if not user:
        return None
    own = Console(console.settings.of_user(user, Secret(password)), console, user)

    async def check() -> bool:
        try:
            await own.admin.cluster.metadata([])
        except KafkaError as error:
            if error.code in REFUSED:
                return False
            raise
        return True

    session_id = None
    try:
        session_id = await console.sessions.log_in_user(check, address)
    finally:
        if session_id is None:
            await own.close()
    if session_id is not None:
        own.start()
        await console.users.add(session_id, own)
    return session_id


def local_path(path: str) -> str:
    """The page to show after the login; // and /\\ would lead to another site.

    Browsers leave out tabs and line breaks of an address, which could hide a second slash.
    """
    is_local = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if is_local else "/"


async def logout(request: Request) -> Response:
    console = console_of(request)
    if request.method == "POST":
        await console.users.close(request.state.session_id)
        request.state.session_id = console.sessions.new_id()
    return RedirectResponse("/login", 303)
