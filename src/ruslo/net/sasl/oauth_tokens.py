"""Gets access tokens from an OAuth provider: client credentials, a signed assertion (KIP-1258), or a file.

A token is used until a part of its lifetime is over, then a new one is fetched. All functions here block.
"""

from __future__ import annotations

import base64
import json
import secrets
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path

from ruslo.model.clock import Clock, SystemClock
from ruslo.model.secret import Secret
from ruslo.net.sasl.mechanism import AuthenticationFailed

REQUEST_TIMEOUT_S = 10.0
MAX_RESPONSE_BYTES = 1024 * 1024
_ASSERTION_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"


@dataclass(slots=True)
class CachedToken:
    """The current token; ``fetch`` gets a new one when it becomes old."""

    fetch: Callable[[], Secret]
    clock: Clock = field(default_factory=SystemClock)
    window_factor: float = 0.8
    """``sasl.login.refresh.window.factor``: the part of its lifetime after which a token is replaced."""
    _token: Secret | None = None
    _fresh_until_ms: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self) -> Secret:
        with self._lock:
            now_ms = self.clock.now_ms()
            if self._token is None or now_ms >= self._fresh_until_ms:
                self._token = self.fetch()
                lifetime_ms = max(expiry_ms(self._token) - now_ms, 0)
                self._fresh_until_ms = now_ms + int(lifetime_ms * self.window_factor)
            return self._token


def token_from_file(path: str) -> Callable[[], Secret]:
    def read() -> Secret:
        try:
            return Secret(Path(path).read_text().strip())
        except OSError as error:
            raise AuthenticationFailed(f"the token file {path} cannot be read: {error.strerror}") from None

    return read


def token_from_client_credentials(
    url: str, client_id: str, client_secret: Secret, scope: str | None
) -> Callable[[], Secret]:
    def fetch() -> Secret:
        pair = f"{urllib.parse.quote(client_id)}:{urllib.parse.quote(client_secret.reveal())}"
        headers = {"Authorization": "Basic " + base64.b64encode(pair.encode()).decode()}
        form = {"grant_type": "client_credentials"} | ({"scope": scope} if scope else {})
        return _request(url, form, headers)

    return fetch


@dataclass(frozen=True, slots=True)
class Assertion:
    """A statement about this client, which it signs with its private key."""

    key: Secret
    """The private key as PEM."""
    passphrase: Secret | None
    algorithm: str
    claims: Mapping[str, str]
    lifetime_s: int
    not_before_s: int
    with_id: bool

    def sign(self, now_s: int) -> str:
        import jwt
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        password = None if self.passphrase is None else self.passphrase.reveal().encode()
        key = load_pem_private_key(self.key.reveal().encode(), password)
        times = {"iat": now_s, "nbf": now_s - self.not_before_s, "exp": now_s + self.lifetime_s}
        own_id = {"jti": secrets.token_urlsafe(16)} if self.with_id else {}
        return jwt.encode({**self.claims, **times, **own_id}, key, self.algorithm)  # type: ignore[arg-type]


def token_from_assertion(
    url: str, assertion: Assertion, scope: str | None, clock: Clock
) -> Callable[[], Secret]:
    def fetch() -> Secret:
        form = {"grant_type": _ASSERTION_GRANT, "assertion": assertion.sign(clock.now_ms() // 1000)}
        return _request(url, form | ({"scope": scope} if scope else {}), {})

    return fetch


def _request(url: str, form: Mapping[str, str], headers: Mapping[str, str]) -> Secret:
    request = urllib.request.Request(
        url,
        data=urllib.parse.urlencode(form).encode(),
        headers={"Accept": "application/json", **headers},
        method="POST",
    )
    try:
        with urllib.request.urlopen(request, timeout=REQUEST_TIMEOUT_S) as response:
            token = json.loads(response.read(MAX_RESPONSE_BYTES))["access_token"]
    except urllib.error.HTTPError as error:
        error.close()
        raise AuthenticationFailed(
            f"the OAuth provider at {url} refused the client: HTTP {error.code}"
        ) from None
    except (OSError, HTTPException, ValueError, KeyError, TypeError) as error:
        reason = getattr(error, "reason", None) or type(error).__name__
        raise AuthenticationFailed(f"no token from the OAuth provider at {url}: {reason}") from None
    return Secret(str(token))


def expiry_ms(token: Secret) -> int:
    """The time in the claim ``exp``; 0 if it cannot be read: then the token is fetched each time."""
    try:
        payload = token.reveal().split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return int(claims["exp"] * 1000)
    except (IndexError, ValueError, KeyError, TypeError):
        return 0
