from __future__ import annotations

from typing import Any

import pytest

from ruslo.client.settings.bootstrap_servers import is_loopback
from ruslo.console.settings import ConsoleSettings, Login
from ruslo.model.errors import ConfigError
from ruslo.net.openid.exchange import ClientRegistration


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_the_loopback_needs_no_password(host: str) -> None:
    assert is_loopback(host)
    assert ConsoleSettings("b:1", host).password is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org", ""])
def test_other_addresses_need_a_password(host: str) -> None:
    with pytest.raises(ConfigError, match="needs a password: set RUSLO_CONSOLE_PASSWORD"):
        ConsoleSettings("b:1", host)
    assert ConsoleSettings("b:1", host, password="x").password == "x"


REGISTRATION = ClientRegistration("https://id.example.org", "console")
OAUTH = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}


def openid_settings(
    registration: ClientRegistration | None = REGISTRATION,
    security: dict[str, str] = OAUTH,
    password: str | None = None,
    redirect_uri: str | None = None,
) -> ConsoleSettings:
    return ConsoleSettings(
        "b:1",
        "0.0.0.0",
        password=password,
        security=security,
        login=Login.OIDC,
        openid=registration,
        redirect_uri=redirect_uri,
    )


def test_a_console_with_an_identity_provider() -> None:
    assert openid_settings().login.is_by_user
    assert openid_settings(redirect_uri="https://c.example.org/login/callback").redirect_uri is not None


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"registration": None}, "Set --oidc-issuer and --oidc-client-id"),
        ({"registration": REGISTRATION._replace(client_id="")}, "Set --oidc-issuer and --oidc-client-id"),
        ({"registration": REGISTRATION._replace(issuer="http://id.example.org")}, "is not protected"),
        ({"registration": REGISTRATION._replace(scopes="kafka")}, "must include openid"),
        ({"security": {}}, "over SASL with OAUTHBEARER"),
        ({"security": OAUTH | {"sasl.mechanism": "PLAIN"}}, "over SASL with OAUTHBEARER"),
        ({"password": "x"}, "one kind of log-in"),
        ({"redirect_uri": "https://c.example.org/"}, "must end with /login/callback"),
        ({"redirect_uri": "http://c.example.org/login/callback"}, "is not protected"),
    ],
)
def test_a_console_that_cannot_log_in(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        openid_settings(**change)
