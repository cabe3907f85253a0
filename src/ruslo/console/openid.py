"""What log-ins with an identity provider share."""

from __future__ import annotations

from typing import NamedTuple

from starlette.requests import Request

from ruslo.console.login_attempts import LoginAttempts
from ruslo.console.settings import ConsoleSettings, Login
from ruslo.model.clock import Clock, SystemClock
from ruslo.net.openid.exchange import OpenIdClient


class OpenIdLogins(NamedTuple):
    client: OpenIdClient
    attempts: LoginAttempts
    clock: Clock


def openid_logins(settings: ConsoleSettings) -> OpenIdLogins | None:
    if settings.login is not Login.OIDC or settings.openid is None:
        return None
    clock = SystemClock()
    return OpenIdLogins(OpenIdClient(settings.openid, clock), LoginAttempts(clock), clock)


def openid_of(request: Request) -> OpenIdLogins | None:
    """None unless the console has ``--login oidc``."""
    logins = request.app.state.openid
    assert logins is None or isinstance(logins, OpenIdLogins)
    return logins
