"""The public keys of an OAuth provider (JWKS), from a file or a URL.

Keys from a URL are fetched at the start, in intervals, and soon after a token names a key that is unknown:
the provider may have rotated its keys. Meanwhile the keys that are known stay valid.
"""

from __future__ import annotations

import asyncio
import json
import logging
import urllib.error
import urllib.request
from collections.abc import Collection
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from ruslo.model.clock import Clock
from ruslo.model.errors import ConfigError
from ruslo.net.sasl.mechanism import AuthenticationFailed

if TYPE_CHECKING:
    from jwt import PyJWK

logger = logging.getLogger(__name__)

_RSA_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
MAX_KEYS_BYTES = 1024 * 1024
FETCH_TIMEOUT_S = 10.0
MIN_REFRESH_INTERVAL_MS = 10_000
"""Unknown key ids cause at most one refresh in this time: a client must not make us flood the provider."""


class SigningKeySet:
    """Keys by id."""

    def __init__(
        self, url: str, clock: Clock, *, refresh_ms: int, backoff_ms: int, max_backoff_ms: int
    ) -> None:
        """Raises ConfigError for a URL that cannot be used, and for a file that has no keys."""
        parts = urlsplit(url)
        if parts.scheme not in ("https", "http", "file"):
            raise ConfigError(
                f"sasl.oauthbearer.jwks.endpoint.url={url} is not a URL of keys. Use https:// or file://"
            )
        self._url = url
        self._path = Path(unquote(parts.path)) if parts.scheme == "file" else None
        self._clock = clock
        self._refresh_ms = refresh_ms
        self._backoff_ms = backoff_ms
        self._max_backoff_ms = max_backoff_ms
        self._keys: list[PyJWK] = []
        self._wanted = asyncio.Event()
        self._last_refresh_ms = -MIN_REFRESH_INTERVAL_MS
        self._file_version: tuple[int, int] | None = None
        self._task: asyncio.Task[None] | None = None
        if self._path is not None:
            self._read_file()

    def start(self) -> None:
        if self._path is None:
            self._task = asyncio.get_running_loop().create_task(self._refresh_for_ever())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def find(self, key_id: str | None, algorithm: str) -> Collection[PyJWK]:
        if self._path is not None:
            self._read_file_if_changed()
        found = matching_keys(self._keys, key_id, algorithm)
        if found:
            return found
        self._wanted.set()
        raise AuthenticationFailed(
            f"the token is signed with key {key_id!r}, which the OAuth provider does not list"
        )

    def _read_file_if_changed(self) -> None:
        assert self._path is not None
        try:
            status = self._path.stat()
        except OSError:
            return
        if (status.st_mtime_ns, status.st_size) != self._file_version:
            try:
                self._read_file()
            except ConfigError as error:
                logger.error("keeping the signing keys as they are: %s", error)

    def _read_file(self) -> None:
        assert self._path is not None
        try:
            status = self._path.stat()
            data = self._path.read_bytes()
        except OSError as error:
            raise ConfigError(
                f"sasl.oauthbearer.jwks.endpoint.url={self._url} cannot be read: {error.strerror}. Check the "
                "path"
            ) from None
        self._file_version = (status.st_mtime_ns, status.st_size)
        self._keys = parse_keys(data, self._url)

    async def _refresh_for_ever(self) -> None:
        backoff_ms = self._backoff_ms
        while True:
            self._wanted.clear()
            self._last_refresh_ms = self._clock.monotonic_ms()
            try:
                self._keys = parse_keys(await asyncio.to_thread(_fetch, self._url), self._url)
            except (OSError, HTTPException, ConfigError, ValueError) as error:
                logger.warning("cannot fetch the signing keys from %s: %s", self._url, error)
                await asyncio.sleep(backoff_ms / 1000)
                backoff_ms = min(backoff_ms * 2, self._max_backoff_ms)
                continue
            backoff_ms = self._backoff_ms
            try:
                async with asyncio.timeout(self._refresh_ms / 1000):
                    await self._wanted.wait()
            except TimeoutError:
                continue
            since_ms = self._clock.monotonic_ms() - self._last_refresh_ms
            await asyncio.sleep(max(MIN_REFRESH_INTERVAL_MS - since_ms, 0) / 1000)


def _fetch(url: str) -> bytes:
    request = urllib.request.Request(url, headers={"Accept": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=FETCH_TIMEOUT_S) as response:
            data: bytes = response.read(MAX_KEYS_BYTES + 1)
    except urllib.error.HTTPError as error:
        error.close()
        raise OSError(f"HTTP {error.code}") from None
    if len(data) > MAX_KEYS_BYTES:
        raise ValueError(f"the response has more than {MAX_KEYS_BYTES} bytes")
    return data


def _algorithms(key: dict[str, object]) -> tuple[str | None, ...]:
    """The algorithms that a key is for; None: the one that it names itself.

    An RSA key without ``alg`` may sign with each algorithm of RSA.
    """
    return _RSA_ALGORITHMS if key.get("kty") == "RSA" and "alg" not in key else (None,)


def matching_keys(keys: Collection[PyJWK], key_id: str | None, algorithm: str) -> list[PyJWK]:
    """The keys that may have signed a token."""
    return [
        key for key in keys if (key_id is None or key.key_id == key_id) and key.algorithm_name == algorithm
    ]


def parse_keys(data: bytes, url: str) -> list[PyJWK]:
    """The usable keys. Raises ConfigError if there is none."""
    from jwt import PyJWK
    from jwt.exceptions import PyJWTError

    from ruslo.net.sasl.access_tokens import ALGORITHMS

    try:
        listed = list(json.loads(data)["keys"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ConfigError(f"{url} is not a set of keys (JWKS): it needs a JSON object with 'keys'") from None
    keys: list[PyJWK] = []
    for each in listed:
        if not isinstance(each, dict) or each.get("use", "sig") != "sig":
            continue
        for algorithm in _algorithms(each):
            try:
                key = PyJWK(each, algorithm)
            except (PyJWTError, ValueError, TypeError, AttributeError):
                continue  # Keys of other kinds, which this node does not use.
            if key.algorithm_name in ALGORITHMS:
                keys.append(key)
    if not keys:
        raise ConfigError(f"{url} has no key for any of {', '.join(ALGORITHMS)}")
    return keys
