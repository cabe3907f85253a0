"""An OAuth provider: signs access tokens, and publishes its keys (JWKS) in a file and at a URL.

``OpenIdProvider`` also logs persons in (OpenID Connect): it asks for no password.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import secrets
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qsl, unquote_plus, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

ISSUER = "https://issuer.test"
AUDIENCE = "kafka"
CLIENT_ID, CLIENT_SECRET = "console", "console-secret"


class Answer(NamedTuple):
    status: int
    body: object = None
    location: str | None = None


class OAuthProvider:
    """``keys`` are published; a key that is not yet in there signs tokens that brokers do not know."""

    def __init__(self) -> None:
        self._private: dict[str, Any] = {}
        self.keys: list[dict[str, Any]] = []
        self.hidden_keys: set[str] = set()
        """The ids of keys that sign tokens, but are not published."""
        self.add_key("rsa", "RS256")
        self.add_key("ec", "ES256")
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                url = urlsplit(self.path)
                self._send(provider.get(url.path, dict(parse_qsl(url.query))))

            def do_POST(self) -> None:
                form = self.rfile.read(int(self.headers["Content-Length"])).decode()
                self._send(provider.post(dict(parse_qsl(form)), self.headers.get("Authorization", "")))

            def _send(self, answer: Answer) -> None:
                page = answer.body if isinstance(answer.body, str) else None
                body = (page or json.dumps(answer.body)).encode()
                self.send_response(answer.status)
                self.send_header("Content-Type", "application/json" if page is None else "text/html")
                if answer.location is not None:
                    self.send_header("Location", answer.location)
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

    def get(self, path: str, query: dict[str, str]) -> Answer:
        return Answer(200, {"keys": [key for key in self.keys if key["kid"] not in self.hidden_keys]})

    def post(self, form: dict[str, str], authorization: str) -> Answer:
        return Answer(404)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def url(self) -> str:
        return f"{self.base_url}/keys"

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


class OpenIdProvider(OAuthProvider):
    """Its issuer is its address. Attributes change what it does next."""

    def __init__(self) -> None:
        super().__init__()
        self.person = "alice"
        self.shows_page = False
        """Whether the person must follow a link, as on the page of a real provider."""
        self.error: str | None = None
        """The error that the redirect of a log-in carries."""
        self.id_claims: dict[str, object] = {}
        """Claims of the next ID tokens that replace the right ones."""
        self.audience = AUDIENCE
        """The audience of the next access tokens."""
        self.token_lifetime_s = 3600
        self.gives_refresh_token = True
        self.rejects_refresh_tokens = False
        self.renewals = 0
        self._codes: dict[str, dict[str, str]] = {}
        """The query of the log-in by code."""
        self._refresh_tokens: dict[str, str] = {}
        """The person by refresh token."""

    @property
    def base_url(self) -> str:
        """For browsers localhost is another site than 127.0.0.1, where the console is."""
        return super().base_url.replace("127.0.0.1", "localhost")

    def get(self, path: str, query: dict[str, str]) -> Answer:
        if path == "/.well-known/openid-configuration":
            return Answer(200, self._description())
        if path == "/authorize":
            return self._authorize(query)
        return super().get(path, query) if path == "/keys" else Answer(404)

    def _description(self) -> dict[str, object]:
        return {
            "issuer": self.base_url,
            "authorization_endpoint": f"{self.base_url}/authorize",
            "token_endpoint": f"{self.base_url}/token",
            "jwks_uri": self.url,
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
        }

    def _authorize(self, query: dict[str, str]) -> Answer:
        assert (query["response_type"], query["client_id"]) == ("code", CLIENT_ID)
        assert query["code_challenge_method"] == "S256"
        given = {"state": query["state"], "iss": self.base_url}
        if self.error is not None:
            given |= {"error": self.error, "error_description": "the person said no"}
        else:
            given["code"] = secrets.token_urlsafe(16)
            self._codes[given["code"]] = query
        back = f"{query['redirect_uri']}?{urlencode(given)}"
        if self.shows_page:
            return Answer(200, f'<link rel="icon" href="data:,"><a href="{html.escape(back)}">Continue</a>')
        return Answer(303, location=back)

    def post(self, form: dict[str, str], authorization: str) -> Answer:
        name, _, secret = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
        if (unquote_plus(name), unquote_plus(secret)) != (CLIENT_ID, CLIENT_SECRET):
            return Answer(401, {"error": "invalid_client"})
        if form["grant_type"] == "refresh_token":
            person = self._refresh_tokens.pop(form["refresh_token"], None)
            if person is None or self.rejects_refresh_tokens:
                return Answer(400, {"error": "invalid_grant"})
            self.renewals += 1
            return Answer(200, self._tokens(person))
        query = self._codes.pop(form["code"], None)
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if (
            query is None
            or query["code_challenge"] != challenge
            or query["redirect_uri"] != form["redirect_uri"]
        ):
            return Answer(400, {"error": "invalid_grant"})
        return Answer(200, self._tokens(self.person, nonce=query["nonce"]))

    def _tokens(self, person: str, **id_claims: object) -> dict[str, object]:
        expiry = int(time.time()) + self.token_lifetime_s
        found: dict[str, object] = {
            "token_type": "Bearer",
            "expires_in": self.token_lifetime_s,
            "access_token": self.token(person, iss=self.base_url, aud=self.audience, exp=expiry),
            "id_token": self.token(
                person,
                "rsa",
                **{"iss": self.base_url, "aud": CLIENT_ID, "exp": expiry, **id_claims, **self.id_claims},
            ),
        }
        if self.gives_refresh_token:
            refresh_token = secrets.token_urlsafe(16)
            self._refresh_tokens[refresh_token] = person
            found["refresh_token"] = refresh_token
        return found
