"""The log-in against a provider on the loopback interface."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from ruslo.model.clock import SystemClock
from ruslo.model.secret import Secret
from ruslo.net.openid.authorization import Authorization
from ruslo.net.openid.errors import LoginRefused, OpenIdError, ProviderUnreachable
from ruslo.net.openid.exchange import ClientRegistration, OpenIdClient
from tests.support.network.oauth_provider import CLIENT_ID, CLIENT_SECRET, OpenIdProvider
from tests.support.network.ports import free_port

REDIRECT = "http://127.0.0.1/login/callback"
SECRETS = Authorization("state", "nonce", "verifier")


@pytest.fixture(scope="module")
def running() -> Iterator[OpenIdProvider]:
    with OpenIdProvider() as provider:
        yield provider


@pytest.fixture
def provider(running: OpenIdProvider) -> Iterator[OpenIdProvider]:
    yield running
    running.error, running.id_claims, running.hidden_keys = None, {}, set()


def client(provider: OpenIdProvider, secret: str | None = CLIENT_SECRET) -> OpenIdClient:
    own = None if secret is None else Secret(secret)
    return OpenIdClient(ClientRegistration(provider.base_url, CLIENT_ID, own), SystemClock())


def follow(url: str) -> dict[str, str]:
    """The query of the redirect back."""

    class Stop(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_: Any, **__: Any) -> None:
            return None

    with pytest.raises(urllib.error.HTTPError) as redirect:
        urllib.request.build_opener(Stop).open(url)
    with redirect.value:
        return dict(parse_qsl(urlsplit(redirect.value.headers["Location"]).query))


def redirected(own: OpenIdClient) -> dict[str, str]:
    return follow(own.authorization_url(REDIRECT, SECRETS))


def test_a_person_logs_in_and_renews(provider: OpenIdProvider) -> None:
    own = client(provider)
    person, tokens = own.log_in(redirected(own), REDIRECT, SECRETS)
    assert person.name == "alice"
    assert tokens.refresh is not None
    assert tokens.expires_at_ms is not None
    renewed = own.renew(tokens, person)
    assert renewed.refresh not in (None, tokens.refresh), "the provider rotates them"
    with pytest.raises(LoginRefused, match="used already"):
        own.renew(tokens, person)


def test_a_code_works_once_and_only_with_its_verifier_and_address(provider: OpenIdProvider) -> None:
    own = client(provider)
    used = redirected(own)
    own.log_in(used, REDIRECT, SECRETS)
    for query, redirect, secrets in (
        (used, REDIRECT, SECRETS),
        (redirected(own), REDIRECT, SECRETS._replace(verifier="guess")),
        (redirected(own), REDIRECT + "/x", SECRETS),
    ):
        with pytest.raises(LoginRefused, match="the code or refresh token was used already"):
            own.log_in(query, redirect, secrets)


@pytest.mark.parametrize(
    ("claims", "problem"),
    [
        ({"nonce": "of another log-in"}, "nonce"),
        ({"aud": "other"}, "audience"),
        ({"iss": "https://other"}, "issuer"),
        ({"exp": 1000}, "expired"),
    ],
)
def test_an_id_token_of_another_login_is_refused(
    provider: OpenIdProvider, claims: dict[str, object], problem: str
) -> None:
    own = client(provider)
    query = redirected(own)
    provider.id_claims = claims
    with pytest.raises(OpenIdError, match=problem):
        own.log_in(query, REDIRECT, SECRETS)


def test_an_id_token_needs_a_key_that_the_provider_lists(provider: OpenIdProvider) -> None:
    provider.hidden_keys = {"rsa"}
    own = client(provider)
    with pytest.raises(OpenIdError, match="which the identity provider does not list"):
        own.log_in(redirected(own), REDIRECT, SECRETS)


def test_a_person_who_declines(provider: OpenIdProvider) -> None:
    provider.error = "access_denied"
    own = client(provider)
    with pytest.raises(LoginRefused, match="access_denied: the person said no"):
        own.log_in(redirected(own), REDIRECT, SECRETS)


def test_a_wrong_secret_names_the_option(provider: OpenIdProvider) -> None:
    own = client(provider, "wrong")
    with pytest.raises(LoginRefused, match="Check --oidc-client-id and --oidc-client-secret"):
        own.log_in(redirected(own), REDIRECT, SECRETS)


def test_a_provider_that_is_down_or_not_one(provider: OpenIdProvider) -> None:
    for issuer in (f"http://127.0.0.1:{free_port()}", f"{provider.base_url}/realm"):
        own = OpenIdClient(ClientRegistration(issuer, CLIENT_ID), SystemClock())
        with pytest.raises(ProviderUnreachable, match="--oidc-issuer") as first:
            own.provider()
        with pytest.raises(ProviderUnreachable) as second:
            own.provider()
        assert second.value is first.value, "it is left alone for a while"
