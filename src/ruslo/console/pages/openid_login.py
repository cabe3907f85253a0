"""Log in with an identity provider: the redirect to it, and the one back."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ruslo.console.console import Console, console_of
from ruslo.console.error_texts import error_text, http_status
from ruslo.console.login_attempts import DURATION_S, LoginAttempt
from ruslo.console.openid import OpenIdLogins, openid_of
from ruslo.console.pages.login import REFUSED, local_path, login_page
from ruslo.console.password_attempts import TooManyAttempts
from ruslo.console.request_target import client_address
from ruslo.console.settings import CALLBACK_PATH
from ruslo.console.token_session import TokenSession
from ruslo.model.errors import KafkaError
from ruslo.net.openid.authorization import is_state_of
from ruslo.net.openid.errors import LoginRefused, OpenIdError
from ruslo.net.openid.id_token import Person
from ruslo.net.openid.tokens import Tokens

_NOT_BEGUN_HERE = (
    "This log-in was not begun in this browser, was completed already, or took longer than 10 minutes. "
    "Nothing was changed. Log in again."
)


async def begin(request: Request) -> Response:
    logins = _logins(request)
    after = local_path(request.query_params.get("next", ""))
    cookie, attempt = logins.attempts.begin(after)
    try:
        url = await asyncio.to_thread(
            logins.client.authorization_url, _redirect_uri(request), attempt.authorization
        )
    except OpenIdError as error:
        return login_page(request, after, f"{error}.", 502)
    response = RedirectResponse(url, 303)
    _set_cookie(request, response, cookie, DURATION_S)
    return response


async def callback(request: Request) -> Response:
    console, logins = console_of(request), _logins(request)
    cookie = request.cookies.get(_cookie_name(console), "")
    attempt = logins.attempts.find(cookie)
    state = request.query_params.get("state", "")
    if attempt is None or not is_state_of(attempt.authorization, state):
        return login_page(request, "/", _NOT_BEGUN_HERE, 400)
    logins.attempts.end(cookie)
    try:
        session_id = await _log_in(request, console, logins, attempt)
    except TooManyAttempts:
        text, status = (
            "Too many login attempts. Wait a few seconds and try again.",
            HTTPStatus.TOO_MANY_REQUESTS,
        )
    except LoginRefused as error:
        text, status = f"{error}.", HTTPStatus.FORBIDDEN
    except OpenIdError as error:
        text, status = f"{error}.", HTTPStatus.BAD_GATEWAY
    except KafkaError as error:
        text, status = error_text(error), http_status(error)
        if error.code in REFUSED:
            text = (
                f"The cluster did not accept your access token. {text} Check that its issuer, audience and "
                "scope are those that the brokers expect."
            )
            status = HTTPStatus.FORBIDDEN
    else:
        # An earlier login of this browser ends.
        await console.users.close(request.state.session_id)
        request.state.session_id = session_id
        # A redirect would still belong to the navigation that the identity provider began, so the browser
        # would not send the new cookie. The page continues by itself.
        response: Response = console.page(request, "logged_in.html", after=attempt.after)
        _set_cookie(request, response, "", 0)
        return response
    response = login_page(request, attempt.after, text, status)
    _set_cookie(request, response, "", 0)
    return response


async def _log_in(request: Request, console: Console, logins: OpenIdLogins, attempt: LoginAttempt) -> str:
    """The id of the new session. Raises OpenIdError, or KafkaError if the cluster rejects the token."""
    found: list[tuple[Console, TokenSession]] = []
    redirect_uri, query = _redirect_uri(request), dict(request.query_params)

    async def check() -> bool:
        person, tokens = await asyncio.to_thread(
            logins.client.log_in, query, redirect_uri, attempt.authorization
        )
        own, session = _new_console(console, logins, person, tokens)
        found.append((own, session))
        await own.admin.cluster.metadata([])
        return True

    session_id = None
    try:
        session_id = await console.sessions.log_in_user(check, client_address(request))
    finally:
        if session_id is None:
            for own, _ in found:
                await own.close()
    assert session_id is not None, "a failed check raises"
    ((own, session),) = found
    own.start()
    await console.users.add(session_id, own, session.until_end)
    return session_id


def _new_console(
    console: Console, logins: OpenIdLogins, person: Person, tokens: Tokens
) -> tuple[Console, TokenSession]:
    session = TokenSession(logins.client, person, tokens, logins.clock)
    return Console(console.settings, console, person.name, session.token), session


def _logins(request: Request) -> OpenIdLogins:
    logins = openid_of(request)
    if logins is None:
        raise HTTPException(404)
    return logins


def _redirect_uri(request: Request) -> str:
    """The page of this console that the provider sends the browser back to."""
    settings = console_of(request).settings
    if settings.redirect_uri is not None:
        return settings.redirect_uri
    # The guard has checked the Host header.
    return f"{'https' if settings.is_https else 'http'}://{request.headers['host']}{CALLBACK_PATH}"


def _cookie_name(console: Console) -> str:
    return f"ruslo_login_{console.settings.port}"


def _set_cookie(request: Request, response: Response, value: str, max_age_s: int) -> None:
    console = console_of(request)
    response.set_cookie(
        _cookie_name(console),
        value,
        max_age=max_age_s,
        path="/login",
        httponly=True,
        # With Strict the browser would not send it along with the redirect of the provider.
        samesite="lax",
        secure=_redirect_uri(request).startswith("https://"),
    )
