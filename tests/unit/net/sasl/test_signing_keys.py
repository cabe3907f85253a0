"""Keys of an OAuth provider from a file and from a real HTTP server."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from ruslo.model.clock import SystemClock
from ruslo.model.errors import ConfigError
from ruslo.net.sasl import signing_keys
from ruslo.net.sasl.mechanism import AuthenticationFailed
from ruslo.net.sasl.signing_keys import SigningKeySet
from tests.support.brokers.live_node import until


def key(key_id: str) -> dict[str, object]:
    public = rsa.generate_private_key(65537, 2048).public_key()
    made = jwt.get_algorithm_by_name("RS256").to_jwk(public, as_dict=True)
    return {**made, "kid": key_id, "alg": "RS256"}


FIRST, SECOND = key("1"), key("2")


def new(url: str) -> SigningKeySet:
    return SigningKeySet(url, SystemClock(), refresh_ms=3_600_000, backoff_ms=10, max_backoff_ms=100)


def ids(keys: SigningKeySet, key_id: str | None = None) -> list[str | None]:
    return [each.key_id for each in keys.find(key_id, "RS256")]


def test_a_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"keys": [FIRST, {"kty": "oct", "k": "c2VjcmV0", "kid": "hmac"}]}))
    keys = new(path.as_uri())
    assert ids(keys) == ["1"]
    path.write_text(json.dumps({"keys": [FIRST, SECOND]}))
    assert ids(keys, "2") == ["2"]
    path.write_text("not JSON")
    assert ids(keys) == ["1", "2"]
    with pytest.raises(AuthenticationFailed):
        keys.find("3", "RS256")
    with pytest.raises(AuthenticationFailed):
        keys.find("1", "ES256")


def test_an_rsa_key_without_an_algorithm_fits_all_of_rsa_and_one_for_encryption_none(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    without = {name: value for name, value in FIRST.items() if name != "alg"}
    path.write_text(json.dumps({"keys": [without, {**SECOND, "use": "enc"}, "text"]}))
    keys = new(path.as_uri())
    assert [ids(keys), [each.key_id for each in keys.find(None, "PS512")]] == [["1"], ["1"]]
    with pytest.raises(AuthenticationFailed):
        keys.find("2", "RS256")


@pytest.mark.parametrize(
    "content", ["", "[]", '{"keys": 1}', '{"keys": []}', '{"keys": [{"kty": "oct", "k": "YQ"}]}']
)
def test_a_file_without_usable_keys_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "keys.json"
    path.write_text(content)
    with pytest.raises(ConfigError):
        new(path.as_uri())


def test_a_missing_file_and_an_unknown_scheme_are_refused(tmp_path: Path) -> None:
    for url in ((tmp_path / "nowhere").as_uri(), "ftp://host/keys", "keys.json"):
        with pytest.raises(ConfigError):
            new(url)


class Provider(BaseHTTPRequestHandler):
    keys: ClassVar = [FIRST]
    requests = 0
    fails = False
    speaks_http = True

    def do_GET(self) -> None:
        Provider.requests += 1
        if not Provider.speaks_http:
            self.wfile.write(b"no HTTP at all\r\n")
            return
        self.send_response(500 if Provider.fails else 200)
        self.end_headers()
        self.wfile.write(json.dumps({"keys": Provider.keys}).encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def provider_url() -> Iterator[str]:
    Provider.keys, Provider.requests, Provider.fails = [FIRST], 0, False
    with ThreadingHTTPServer(("127.0.0.1", 0), Provider) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/keys"
        server.shutdown()
        thread.join()


async def found(keys: SigningKeySet, key_id: str) -> None:
    while True:
        try:
            keys.find(key_id, "RS256")
            return
        except AuthenticationFailed:
            await asyncio.sleep(0.01)


async def test_an_unknown_key_makes_the_node_fetch_the_keys_again_but_not_often(
    provider_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signing_keys, "MIN_REFRESH_INTERVAL_MS", 100)
    keys = new(provider_url)
    keys.start()
    await found(keys, "1")
    Provider.keys = [FIRST, SECOND]
    await found(keys, "2")
    fetched = Provider.requests
    for _ in range(50):
        with pytest.raises(AuthenticationFailed):
            keys.find("3", "RS256")
    assert Provider.requests - fetched <= 1
    await keys.stop()


async def test_a_response_that_is_not_http_does_not_end_the_refreshes(
    provider_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Provider, "speaks_http", False)
    keys = new(provider_url)
    keys.start()
    await until(lambda: Provider.requests >= 2)
    monkeypatch.setattr(Provider, "speaks_http", True)
    await found(keys, "1")
    await keys.stop()


async def test_known_keys_stay_valid_while_the_provider_is_down(
    provider_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signing_keys, "MIN_REFRESH_INTERVAL_MS", 0)
    keys = new(provider_url)
    Provider.fails = True
    keys.start()
    await until(lambda: Provider.requests >= 2)
    Provider.fails = False
    await found(keys, "1")
    Provider.fails, before = True, Provider.requests
    with pytest.raises(AuthenticationFailed):
        keys.find("2", "RS256")
    await until(lambda: Provider.requests > before)
    assert ids(keys, "1") == ["1"]
    await keys.stop()
