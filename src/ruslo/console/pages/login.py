"""Log in and out, where a password is asked for."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ruslo.console.console import console_of, form_of
from ruslo.console.guesses import TooManyAttempts
from ruslo.console.render import link
from ruslo.console.requested import client_address


async def login(request: Request) -> Response:
    console = console_of(request)
    after = _page_of_ours(request.query_params.get("next", ""))
    if not console.sessions.needs_login or (
        request.method == "GET" and console.sessions.is_logged_in(request.state.session_id)
    ):
        return RedirectResponse(after, 303)
    mistake, status = None, 200
    if request.method == "POST":
        try:
            session_id = await console.sessions.log_in(
                form_of(request).raw("password"), client_address(request)
            )
        except TooManyAttempts:
            mistake, status = "Too many passwords are tried at once. Wait a few seconds and try again.", 429
        else:
            if session_id is not None:
                request.state.session_id = session_id
                return RedirectResponse(after, 303)
            mistake, status = "That is not the password.", 401
    return console.page(
        request,
        "login.html",
        status=status,
        mistake=mistake,
        action=link("/login", next="" if after == "/" else after),
    )


def _page_of_ours(path: str) -> str:
    """Where somebody wanted to go; browsers take // and /\\ for the beginning of another site's address."""
    return path if path.startswith("/") and not path.startswith(("//", "/\\")) else "/"


async def logout(request: Request) -> Response:
    console = console_of(request)
    if request.method == "POST":
        console.sessions.log_out(request.state.session_id)
        request.state.session_id = console.sessions.new_id()
    return RedirectResponse("/login", 303)
