"""A client of an OpenID Connect provider: redeems codes and renews tokens. All calls block."""

from __future__ import annotations

import base64
import threading
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote_plus

from ruslo.model.clock import Clock
from ruslo.model.errors import ConfigError
from ruslo.model.secret import Secret
from ruslo.net.openid import http
from ruslo.net.openid.authorization import Authorization, authorization_url, code_of
from ruslo.net.openid.errors import LoginRefused, OpenIdError, ProviderUnreachable
from ruslo.net.openid.id_token import IdTokenRules, Person
from ruslo.net.openid.provider import Provider, discovery_url, parse_provider
from ruslo.net.openid.tokens import Tokens, parse_tokens
from ruslo.net.sasl.access_tokens import verified_claims
from ruslo.net.sasl.mechanism import AuthenticationFailed
from ruslo.net.sasl.signing_keys import MIN_REFRESH_INTERVAL_MS, matching_keys, parse_keys

if TYPE_CHECKING:
    from jwt import PyJWK

DESCRIPTION_LIFETIME_MS = 3_600_000
"""How long the provider's description and keys are used before they are fetched again."""

RETRY_INTERVAL_MS = 3000
"""How long a provider is left alone that could not be reached."""


class ClientRegistration(NamedTuple):
    """This client, as it is registered at the provider."""

    issuer: str
    client_id: str
    client_secret: Secret | None = None
    """None for a public client: PKCE then protects the code alone."""
    scopes: str = "openid"


class OpenIdClient:
    """Used by several threads at once."""

    def __init__(self, registration: ClientRegistration, clock: Clock) -> None:
        self._registration = registration
        self._clock = clock
        self._lock = threading.Lock()
        self._provider: tuple[Provider, int] | None = None
        """With the time when it was fetched."""
        self._failure: tuple[OpenIdError, int] | None = None
        """The last error, with its time."""
        self._keys = _ProviderKeys(clock)

    def provider(self) -> Provider:
        with self._lock:
            now_ms = self._clock.monotonic_ms()
            if self._provider is not None and now_ms - self._provider[1] < DESCRIPTION_LIFETIME_MS:
                return self._provider[0]
            if self._failure is not None and now_ms - self._failure[1] < RETRY_INTERVAL_MS:
                # Waiting callers would each hold a thread for the whole timeout.
                raise self._failure[0].with_traceback(None)
            try:
                provider = self._discover()
            except OpenIdError as error:
                self._failure = (error, self._clock.monotonic_ms())
                raise
            self._provider, self._failure = (provider, now_ms), None
            return provider

    def _discover(self) -> Provider:
        url = discovery_url(self._registration.issuer)
        response = http.request(url)
        if response.status != 200:
            raise ProviderUnreachable(
                f"The identity provider does not describe itself at {url}: HTTP {response.status}. Check "
                "--oidc-issuer"
            )
        return parse_provider(response.json, self._registration.issuer)

    def authorization_url(self, redirect_uri: str, authorization: Authorization) -> str:
        registration = self._registration
        return authorization_url(
            self.provider(), registration.client_id, redirect_uri, registration.scopes, authorization
        )

    def log_in(
        self, query: Mapping[str, str], redirect_uri: str, authorization: Authorization
    ) -> tuple[Person, Tokens]:
        """Redeem the code of a redirect whose state is right. Raises OpenIdError."""
        provider = self.provider()
        form = {
            "grant_type": "authorization_code",
            "code": code_of(query, provider),
            "redirect_uri": redirect_uri,
            "code_verifier": authorization.verifier,
        }
        tokens = self._request_tokens(provider, form)
        if tokens.id is None:
            raise OpenIdError("The identity provider sent no ID token. Allow the scope openid for the client")
        rules = IdTokenRules(provider.issuer, self._registration.client_id, nonce=authorization.nonce)
        return self._check(provider, tokens.id, rules), tokens

    def renew(self, tokens: Tokens, person: Person) -> Tokens:
        """New tokens for the refresh token. Raises OpenIdError."""
        assert tokens.refresh is not None, "without a refresh token the session ends"
        provider = self.provider()
        form = {"grant_type": "refresh_token", "refresh_token": tokens.refresh.reveal()}
        renewed = self._request_tokens(provider, form, tokens.refresh)
        if renewed.id is not None:
            rules = IdTokenRules(provider.issuer, self._registration.client_id, subject=person.subject)
            self._check(provider, renewed.id, rules)
        return renewed

    def _request_tokens(
        self, provider: Provider, form: dict[str, str], refresh: Secret | None = None
    ) -> Tokens:
        client_id, secret = self._registration.client_id, self._registration.client_secret
        headers: dict[str, str] = {}
        if secret is None:
            form["client_id"] = client_id
        elif "client_secret_basic" in provider.token_auth_methods:
            pair = f"{quote_plus(client_id)}:{quote_plus(secret.reveal())}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        else:
            form |= {"client_id": client_id, "client_secret": secret.reveal()}
        response = http.request(provider.token_endpoint, form, headers)
        if response.status == 200:
            return parse_tokens(response.json, self._clock.now_ms(), refresh)
        error = response.json.get("error")
        if response.status >= 500 or not isinstance(error, str):
            raise ProviderUnreachable(f"The identity provider issued no token: HTTP {response.status}")
        reasons = {
            "invalid_grant": "the code or refresh token was used already, expired or is of another client",
            "invalid_client": "client id or secret is wrong. Check --oidc-client-id and --oidc-client-secret",
        }
        raise LoginRefused(f"The identity provider issued no token: {reasons.get(error, error[:100])}")

    def _check(self, provider: Provider, token: Secret, rules: IdTokenRules) -> Person:
        try:
            claims = verified_claims(token, self._keys.of(provider))
            return rules.check(claims, self._clock.now_ms())
        except AuthenticationFailed as error:
            raise OpenIdError(f"The ID token of the identity provider is not valid: {error.reason}") from None


class _ProviderKeys:
    """The keys that sign ID tokens, fetched when a token names an unknown one."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._url = ""
        self._keys: list[PyJWK] = []
        self._fetched_at_ms: int | None = None

    def of(self, provider: Provider) -> _ProviderKeys:
        with self._lock:
            if provider.jwks_uri != self._url:
                self._url, self._keys, self._fetched_at_ms = provider.jwks_uri, [], None
        return self

    def find(self, key_id: str | None, algorithm: str) -> Collection[PyJWK]:
        with self._lock:
            found = matching_keys(self._keys, key_id, algorithm)
            now_ms = self._clock.monotonic_ms()
            age_ms = None if self._fetched_at_ms is None else now_ms - self._fetched_at_ms
            is_old = age_ms is None or age_ms >= DESCRIPTION_LIFETIME_MS
            if is_old or (not found and age_ms is not None and age_ms >= MIN_REFRESH_INTERVAL_MS):
                self._keys, self._fetched_at_ms = self._fetch(), now_ms
                found = matching_keys(self._keys, key_id, algorithm)
        if not found:
            raise AuthenticationFailed(
                f"it is signed with key {key_id!r}, which the identity provider does not list"
            )
        return found

    def _fetch(self) -> list[PyJWK]:
        response = http.request(self._url)
        if response.status != 200:
            raise ProviderUnreachable(
                f"The identity provider does not list its keys at {self._url}: HTTP {response.status}"
            )
        try:
            return parse_keys(response.body, self._url)
        except ConfigError as error:
            raise ProviderUnreachable(str(error)) from None
