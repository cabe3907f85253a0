"""The checks of a log-in: the provider's description, the redirect back, and the claims of the ID token."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from ruslo.model.secret import Secret
from ruslo.net.openid.authorization import Authorization, authorization_url, code_of, is_state_of
from ruslo.net.openid.errors import LoginRefused, OpenIdError
from ruslo.net.openid.id_token import IdTokenRules, Person
from ruslo.net.openid.provider import discovery_url, is_protected, parse_provider
from ruslo.net.openid.tokens import parse_tokens
from ruslo.net.sasl.mechanism import AuthenticationFailed

ISSUER = "https://id.example.org/realm"
DESCRIPTION: dict[str, Any] = {
    "issuer": ISSUER,
    "authorization_endpoint": "https://id.example.org/auth?tenant=1",
    "token_endpoint": "https://id.example.org/token",
    "jwks_uri": "https://id.example.org/keys",
    "code_challenge_methods_supported": ["plain", "S256"],
}
PROVIDER = parse_provider(DESCRIPTION, ISSUER)
# The verifier and the challenge are the example of RFC 7636, appendix B.
AUTHORIZATION = Authorization("state", "nonce", "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")
CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
NOW_S = 1_800_000_000
CLAIMS: dict[str, Any] = {
    "iss": ISSUER, "aud": "console", "sub": "17", "iat": NOW_S, "exp": NOW_S + 60, "nonce": "nonce",
}  # fmt: skip


def test_the_description_is_found_below_the_issuer() -> None:
    assert (
        discovery_url(ISSUER) == discovery_url(ISSUER + "/") == f"{ISSUER}/.well-known/openid-configuration"
    )
    assert PROVIDER.token_auth_methods == ("client_secret_basic",)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"issuer": ISSUER + "/"}, "calls itself"),
        ({"issuer": None}, "calls itself"),
        ({"token_endpoint": "http://id.example.org/token"}, "no token_endpoint with https"),
        ({"jwks_uri": None}, "no jwks_uri"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "no authorization_endpoint"),
        ({"code_challenge_methods_supported": ["plain"]}, "does not support PKCE"),
    ],
)
def test_a_description_that_cannot_be_used(change: dict[str, object], problem: str) -> None:
    with pytest.raises(OpenIdError, match=problem):
        parse_provider(DESCRIPTION | change, ISSUER)


@pytest.mark.parametrize(
    ("url", "protected"),
    [
        ("https://a", True),
        ("http://127.0.0.1:5/x", True),
        ("http://[::1]/", True),
        ("http://localhost", True),
        ("http://a", False),
        ("http://10.0.0.1", False),
        ("https://", False),
        ("file:///etc", False),
        ("http://[", False),
    ],
)
def test_tokens_go_over_https_or_stay_on_this_machine(url: str, protected: bool) -> None:
    assert is_protected(url) is protected


def test_the_redirect_has_the_challenge_but_not_the_verifier() -> None:
    url = authorization_url(PROVIDER, "console", "https://c/login/callback", "openid kafka", AUTHORIZATION)
    assert url.startswith("https://id.example.org/auth?tenant=1&response_type=code&")
    query = parse_qs(urlsplit(url).query)
    assert query["code_challenge"] == [CHALLENGE]
    assert query["code_challenge_method"] == ["S256"]
    assert (query["state"], query["nonce"]) == (["state"], ["nonce"])
    assert AUTHORIZATION.verifier not in url


def test_a_code_comes_from_the_provider_of_the_console() -> None:
    assert is_state_of(AUTHORIZATION, "state")
    assert not is_state_of(AUTHORIZATION, "ключ")
    assert code_of({"code": "c"}, PROVIDER) == "c"
    assert code_of({"code": "c", "iss": ISSUER}, PROVIDER) == "c"
    for query, provider in (
        ({"code": "c", "iss": "https://other"}, PROVIDER),
        ({"code": "c"}, PROVIDER._replace(names_itself=True)),
    ):
        with pytest.raises(OpenIdError, match="not from the identity provider"):
            code_of(query, provider)
    with pytest.raises(OpenIdError, match="has no code"):
        code_of({}, PROVIDER)


def test_a_refusal_says_why() -> None:
    with pytest.raises(LoginRefused, match=r"\(access_denied: no\)"):
        code_of({"error": "access_denied", "error_description": "no", "code": "c"}, PROVIDER)
    with pytest.raises(LoginRefused) as refusal:
        code_of({"error": "x" * 5000}, PROVIDER)
    assert len(str(refusal.value)) < 400


LOGIN = IdTokenRules(ISSUER, "console", nonce="nonce")


def check(rules: IdTokenRules = LOGIN, **claims: Any) -> Person:
    present = {name: value for name, value in (CLAIMS | claims).items() if value is not None}
    return rules.check(present, NOW_S * 1000)


def test_an_id_token_names_the_person() -> None:
    assert check() == Person("17", "17")
    assert check(email="a@b", preferred_username=" ") == Person("17", "a@b")
    assert check(aud=["console", "kafka"], azp="console").subject == "17"
    assert check(IdTokenRules(ISSUER, "console", subject="17"), nonce=None).subject == "17"


@pytest.mark.parametrize(
    ("claims", "problem"),
    [
        ({"iss": "https://other"}, "issuer"),
        ({"aud": "kafka"}, "audience"),
        ({"aud": None}, "audience"),
        ({"aud": ["console", "kafka"]}, "authorized party"),
        ({"azp": "other"}, "authorized party"),
        ({"exp": NOW_S - 60}, "expired"),
        ({"exp": None}, "exp"),
        ({"nonce": "other"}, "nonce"),
        ({"nonce": None}, "nonce"),
        ({"nonce": 5}, "nonce"),
        ({"sub": None}, "sub"),
    ],
)
def test_an_id_token_that_is_not_for_this_login(claims: dict[str, Any], problem: str) -> None:
    with pytest.raises(AuthenticationFailed, match=problem):
        check(**claims)


def test_a_renewal_must_not_change_the_person() -> None:
    with pytest.raises(AuthenticationFailed, match="another person"):
        check(IdTokenRules(ISSUER, "console", subject="18"))


def test_tokens_of_a_response() -> None:
    found = parse_tokens({"access_token": "a", "token_type": "bearer", "expires_in": "60"}, 1000, Secret("r"))
    assert (found.access, found.expires_at_ms, found.refresh) == (Secret("a"), 61_000, Secret("r"))
    assert found.id is None
    assert "access=***" in repr(found)
    assert parse_tokens({"access_token": "a", "token_type": "Bearer"}, 0).expires_at_ms is None
    for response in ({}, {"access_token": "a"}, {"access_token": 5, "token_type": "Bearer"}):
        with pytest.raises(OpenIdError):
            parse_tokens(response, 0)
