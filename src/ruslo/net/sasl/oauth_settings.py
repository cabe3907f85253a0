"""Kafka's ``sasl.oauthbearer.*`` settings of a client, as a source of tokens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from ruslo.config.jaas import JaasLogin
from ruslo.model.clock import Clock
from ruslo.model.errors import ConfigError
from ruslo.model.secret import Secret
from ruslo.net.sasl.oauth_tokens import (
    Assertion,
    CachedToken,
    token_from_assertion,
    token_from_client_credentials,
    token_from_file,
)

_PREFIX = "sasl.oauthbearer."
_CLAIMS = ("aud", "iss", "sub")


class OAuthSettings(Protocol):
    def text(self, key: str) -> str | None: ...

    def secret(self, key: str) -> Secret | None: ...


def token_source(settings: OAuthSettings, jaas: JaasLogin | None, clock: Clock) -> Callable[[], Secret]:
    """Raises ConfigError if the settings do not say where tokens come from."""
    url = settings.text(f"{_PREFIX}token.endpoint.url")
    if url is None:
        raise ConfigError(
            "OAUTHBEARER needs the OAuth provider. Set sasl.oauthbearer.token.endpoint.url, to file:///PATH "
            "for a token "
            "in a file"
        )
    if urlsplit(url).scheme == "file":
        return CachedToken(token_from_file(unquote(urlsplit(url).path)), clock)
    scope = settings.text(f"{_PREFIX}scope") or (None if jaas is None else jaas.text("scope"))
    key_file = settings.text(f"{_PREFIX}assertion.private.key.file")
    if key_file is not None:
        return CachedToken(token_from_assertion(url, _assertion(settings, key_file), scope, clock), clock)
    client_id = settings.text(f"{_PREFIX}client.credentials.client.id")
    secret = settings.secret(f"{_PREFIX}client.credentials.client.secret")
    if jaas is not None:
        client_id, secret = client_id or jaas.text("clientId"), secret or jaas.options.get("clientSecret")
    if client_id is None or secret is None:
        raise ConfigError(
            "OAUTHBEARER needs sasl.oauthbearer.client.credentials.client.id and client.secret, or "
            "sasl.oauthbearer.assertion.private.key.file"
        )
    return CachedToken(token_from_client_credentials(url, client_id, secret, scope), clock)


def _assertion(settings: OAuthSettings, key_file: str) -> Assertion:
    try:
        key = Path(key_file).read_text()
    except OSError as error:
        raise ConfigError(
            f"sasl.oauthbearer.assertion.private.key.file={key_file} cannot be read: {error.strerror}"
        ) from None
    claims = {name: settings.text(f"{_PREFIX}assertion.claim.{name}") for name in _CLAIMS}
    return Assertion(
        key=Secret(key),
        passphrase=settings.secret(f"{_PREFIX}assertion.private.key.passphrase"),
        algorithm=(settings.text(f"{_PREFIX}assertion.algorithm") or "RS256").upper(),
        claims={name: value for name, value in claims.items() if value is not None},
        lifetime_s=int(settings.text(f"{_PREFIX}assertion.claim.exp.seconds") or 300),
        not_before_s=int(settings.text(f"{_PREFIX}assertion.claim.nbf.seconds") or 60),
        with_id=(settings.text(f"{_PREFIX}assertion.claim.jti.include") or "").lower() == "true",
    )
