"""SCRAM credentials: what is stored instead of a password (RFC 5802)."""

from __future__ import annotations

import enum
import hashlib
import hmac
import secrets
from typing import NamedTuple

from ruslo.model.secret import Secret

MIN_ITERATIONS = 4096
MAX_ITERATIONS = 16384
SALT_BYTES = 20


class ScramMechanism(enum.Enum):
    """The value is the number of the mechanism in requests and metadata records."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        return self.name.replace("_", "-")

    @property
    def digest(self) -> str:
        return "sha256" if self is ScramMechanism.SCRAM_SHA_256 else "sha512"


MECHANISM_OF = {mechanism.sasl_name: mechanism for mechanism in ScramMechanism}


class ScramCredential(NamedTuple):
    """The password cannot be computed from it."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations})"


def salted_password(mechanism: ScramMechanism, password: Secret, salt: bytes, iterations: int) -> bytes:
    """Hash the password as often as ``iterations`` says: milliseconds of work, on purpose."""
    return hashlib.pbkdf2_hmac(mechanism.digest, password.reveal().encode(), salt, iterations)


def credential_from_salted_password(
    mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int
) -> ScramCredential:
    client_key = hmac.digest(salted, b"Client Key", mechanism.digest)
    stored_key = hashlib.new(mechanism.digest, client_key).digest()
    server_key = hmac.digest(salted, b"Server Key", mechanism.digest)
    return ScramCredential(salt, stored_key, server_key, iterations)


def new_salt() -> bytes:
    return secrets.token_bytes(SALT_BYTES)


def new_credential(
    mechanism: ScramMechanism, password: Secret, iterations: int = MIN_ITERATIONS, salt: bytes | None = None
) -> ScramCredential:
    chosen = salt or new_salt()
    salted = salted_password(mechanism, password, chosen, iterations)
    return credential_from_salted_password(mechanism, salted, chosen, iterations)
