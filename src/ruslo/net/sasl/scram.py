"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677): proves a password without sending it.

::

    client                                      broker
    n,,n=USER,r=NONCE                 ->
                                      <-        r=NONCE+MORE,s=SALT,i=ITERATIONS
    c=biws,r=NONCE+MORE,p=PROOF       ->
                                      <-        v=SIGNATURE

The broker stores a hash of the password (``ScramCredential``), from which the password cannot be computed. An
unknown user gets a salt, too, and fails at the end like a wrong password: the exchange does not tell which
users exist. With the extension ``tokenauth=true`` the user is the id of a delegation token (KIP-48).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from ruslo.model.scram import (
    MIN_ITERATIONS,
    ScramCredential,
    ScramMechanism,
    salted_password,
)
from ruslo.model.secret import Secret
from ruslo.net.sasl.mechanism import AuthenticationFailed, Identity

_MAX_CLIENT_ITERATIONS = 1_000_000
"""A client computes this many hashes at most: a hostile broker must not keep it busy for hours."""
_NONCE_BYTES = 24
_TOKEN_AUTH = "tokenauth"

_SASL_NAME = r"(?:[^\0=,]|=2C|=3D)+"
_PRINTABLE = r"[\x21-\x2b\x2d-\x7e]+"
_BASE64 = r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)"
_EXTENSIONS = r"((?:,[A-Za-z]+=[^,\0]+)*)"
_CLIENT_FIRST = re.compile(rf"([ny],(?:a=({_SASL_NAME}))?,)(n=({_SASL_NAME}),r=({_PRINTABLE}){_EXTENSIONS})")
_CLIENT_FINAL = re.compile(rf"(c=({_BASE64}),r=({_PRINTABLE}){_EXTENSIONS}),p=({_BASE64})")
_SERVER_FIRST = re.compile(rf"r=({_PRINTABLE}),s=({_BASE64}),i=([1-9][0-9]{{0,9}}){_EXTENSIONS}")
_SERVER_FINAL = re.compile(rf"(?:e=([^,\0]+)|v=({_BASE64})){_EXTENSIONS}")


class ScramAccount(NamedTuple):
    """What a broker knows of a user, or of a delegation token."""

    credential: ScramCredential
    identity: Identity
    exists: bool = True
    """False: no password opens the account."""


def unknown_account(mechanism: ScramMechanism, user: str, salt: bytes, iterations: int) -> ScramAccount:
    """The account of a user that does not exist: it has a salt like any other."""
    size = hashlib.new(mechanism.digest).digest_size
    credential = ScramCredential(salt, secrets.token_bytes(size), secrets.token_bytes(size), iterations)
    return ScramAccount(credential, Identity(user), exists=False)


@dataclass(slots=True)
class ScramServer:
    mechanism: ScramMechanism
    find_account: Callable[[str, bool], ScramAccount]
    """The account of a user, or of the token with this id if the flag is set."""
    identity: Identity | None = None
    _client_first: str = ""
    _server_first: str = ""
    _gs2_header: str = ""
    _own_nonce: str = ""
    _account: ScramAccount | None = None

    def respond(self, message: bytes) -> bytes:
        text = _decoded(message)
        return (self._respond_first(text) if self._account is None else self._respond_final(text)).encode()

    def _respond_first(self, text: str) -> str:
        match = _CLIENT_FIRST.fullmatch(text)
        if match is None:
            raise AuthenticationFailed("the first SCRAM message is malformed")
        self._gs2_header, authorization_id, self._client_first, name, client_nonce, extensions = (
            match.groups()
        )
        user = _unescape(name)
        by_token = _extensions(extensions).get(_TOKEN_AUTH) == "true"
        account = self.find_account(user, by_token)
        if authorization_id is not None and _unescape(authorization_id) != user:
            raise AuthenticationFailed(
                f"user {user!r} requested another authorization id",
                "Authentication failed: Client requested an authorization id that is different from username",
            )
        self._account = account
        self._own_nonce = secrets.token_urlsafe(_NONCE_BYTES)
        credential = account.credential
        salt = base64.b64encode(credential.salt).decode()
        self._server_first = f"r={client_nonce}{self._own_nonce},s={salt},i={credential.iterations}"
        return self._server_first

    def _respond_final(self, text: str) -> str:
        account, self._account = self._account, None
        assert account is not None
        match = _CLIENT_FINAL.fullmatch(text)
        if match is None:
            raise AuthenticationFailed("the final SCRAM message is malformed")
        without_proof, binding, nonce, _, proof = match.groups()
        # librdkafka before 2.6.1 repeats the client's part before it. Kafka checks only the broker's part.
        # The proof covers all parts.
        if not nonce.endswith(self._own_nonce):
            raise AuthenticationFailed("the nonce of the final SCRAM message is not that of this exchange")
        if base64.b64decode(binding) != self._gs2_header.encode():
            raise AuthenticationFailed(
                "the channel binding of the final SCRAM message differs from the first"
            )
        digest, credential = self.mechanism.digest, account.credential
        exchange = f"{self._client_first},{self._server_first},{without_proof}".encode()
        client_signature = hmac.digest(credential.stored_key, exchange, digest)
        client_key = _xor(base64.b64decode(proof), client_signature)
        stored_key = hashlib.new(digest, client_key).digest()
        if not hmac.compare_digest(stored_key, credential.stored_key) or not account.exists:
            raise AuthenticationFailed(f"unknown user {account.identity.user!r} or wrong password")
        self.identity = account.identity
        signature = base64.b64encode(hmac.digest(credential.server_key, exchange, digest)).decode()
        return f"v={signature}"


@dataclass(slots=True)
class ScramClient:
    mechanism: ScramMechanism
    user: str
    password: Secret
    token_auth: bool = False
    """``user`` is the id of a delegation token, ``password`` its HMAC."""
    complete: bool = False
    _nonce: str = field(default_factory=lambda: secrets.token_urlsafe(_NONCE_BYTES))
    _client_first: str = ""
    _signature: bytes = b""

    def respond(self, challenge: bytes) -> bytes:
        if not self._client_first:
            name = self.user.replace("=", "=3D").replace(",", "=2C")
            self._client_first = f"n={name},r={self._nonce}" + (f",{_TOKEN_AUTH}=true" * self.token_auth)
            return f"n,,{self._client_first}".encode()
        if not self._signature:
            return self._prove(_decoded(challenge)).encode()
        self._verify(_decoded(challenge))
        return b""

    def _prove(self, text: str) -> str:
        match = _SERVER_FIRST.fullmatch(text)
        if match is None or not match[1].startswith(self._nonce) or match[1] == self._nonce:
            raise AuthenticationFailed("the broker's SCRAM message is malformed, or answers another exchange")
        iterations = int(match[3])
        if not MIN_ITERATIONS <= iterations <= _MAX_CLIENT_ITERATIONS:
            raise AuthenticationFailed(
                f"the broker demands {iterations} SCRAM iterations, outside {MIN_ITERATIONS} to "
                f"{_MAX_CLIENT_ITERATIONS}"
            )
        salt, digest = base64.b64decode(match[2]), self.mechanism.digest
        salted = salted_password(self.mechanism, self.password, salt, iterations)
        client_key = hmac.digest(salted, b"Client Key", digest)
        stored_key = hashlib.new(digest, client_key).digest()
        server_key = hmac.digest(salted, b"Server Key", digest)
        without_proof = f"c=biws,r={match[1]}"
        exchange = f"{self._client_first},{text},{without_proof}".encode()
        proof = _xor(client_key, hmac.digest(stored_key, exchange, digest))
        self._signature = hmac.digest(server_key, exchange, digest)
        return f"{without_proof},p={base64.b64encode(proof).decode()}"

    def _verify(self, text: str) -> None:
        match = _SERVER_FINAL.fullmatch(text)
        if match is None:
            raise AuthenticationFailed("the broker's last SCRAM message is malformed")
        if match[1] is not None:
            raise AuthenticationFailed(f"the broker refused the SCRAM exchange: {match[1]}")
        if not hmac.compare_digest(base64.b64decode(match[2]), self._signature):
            raise AuthenticationFailed("the broker does not know the password: it may be an impostor")
        self.complete = True


def _decoded(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise AuthenticationFailed("the SCRAM message is not UTF-8") from None


def _unescape(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _extensions(text: str) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in text.split(",") if pair)


def _xor(left: bytes, right: bytes) -> bytes:
    if len(left) != len(right):
        raise AuthenticationFailed("the SCRAM proof has the wrong length")
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
