"""An OAuth provider: signs access tokens, and publishes its keys (JWKS) in a file and at a URL."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

ISSUER = "https://issuer.test"
AUDIENCE = "kafka"


class OAuthProvider:
    """``keys`` are published; a key that is not yet in there signs tokens that brokers do not know."""

    def __init__(self) -> None:
        self._private: dict[str, Any] = {}
        self.keys: list[dict[str, Any]] = []
        self.add_key("rsa", "RS256")
        self.add_key("ec", "ES256")
        keys = self.keys

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = json.dumps({"keys": keys}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Tests print nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/keys"

    def write_keys(self, path: Path) -> str:
        """Write the keys to a file; returns its URL."""
        path.write_text(json.dumps({"keys": self.keys}))
        return path.as_uri()

    def add_key(self, key_id: str, algorithm: str) -> None:
        key: Any
        if algorithm.startswith("ES"):
            key = ec.generate_private_key(ec.SECP256R1())
        else:
            key = rsa.generate_private_key(65537, 2048)
        self._private[key_id] = key
        public = jwt.get_algorithm_by_name(algorithm).to_jwk(key.public_key(), as_dict=True)
        self.keys.append({**public, "kid": key_id, "alg": algorithm, "use": "sig"})

    def token(self, user: str, key_id: str = "rsa", **claims: object) -> str:
        """A token for an hour; ``claims`` replace its own, None removes one."""
        now_s = int(time.time())
        own = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": user,
            "scope": "kafka",
            "iat": now_s,
            "exp": now_s + 3600,
        }
        payload = {name: value for name, value in (own | claims).items() if value is not None}
        algorithm = next(key["alg"] for key in self.keys if key["kid"] == key_id)
        return jwt.encode(payload, self._private[key_id], algorithm, headers={"kid": key_id})
