"""Log in and out, if the console has a password."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ruslo.console.console import console_of, form_of
from ruslo.console.password_attempts import TooManyAttempts
from ruslo.console.render import link
from ruslo.console.request_target import client_address


async def login(request: Request) -> Response:
    console = console_of(request)
    after = _local_path(request.query_params.get("next", ""))
    if not console.sessions.needs_login or (
        request.method == "GET" and console.sessions.is_logged_in(request.state.session_id)
    ):
        return RedirectResponse(after, 303)
    form_error, status = None, 200
    if request.method == "POST":
        try:
            session_id = await console.sessions.log_in(
                form_of(request).raw("password"), client_address(request)
            )
        except TooManyAttempts:
            form_error, status = "Too many login attempts. Wait a few seconds and try again.", 429
        else:
            if session_id is not None:
                request.state.session_id = session_id
                return RedirectResponse(after, 303)
            form_error, status = "The password is wrong. Try again.", 401
    return console.page(
        request,
        "login.html",
        status=status,
        form_error=form_error,
        action=link("/login", next="" if after == "/" else after),
    )


def _local_path(path: str) -> str:
    """The page to show after the login; // and /\\ would lead to another site."""
    return path if path.startswith("/") and not path.startswith(("//", "/\\")) else "/"


async def logout(request: Request) -> Response:
    console = console_of(request)
    if request.method == "POST":
        console.sessions.log_out(request.state.session_id)
        request.state.session_id = console.sessions.new_id()
    return RedirectResponse("/login", 303)
