"""The first SCRAM users of a new cluster: ``storage format --add-scram`` (KIP-900)."""

from __future__ import annotations

import base64
import binascii
import re

from ruslo.model.errors import ConfigError
from ruslo.model.scram import (
    MAX_ITERATIONS,
    MECHANISM_OF,
    MIN_ITERATIONS,
    ScramMechanism,
    credential_from_salted_password,
    new_salt,
    salted_password,
)
from ruslo.model.secret import Secret
from ruslo.protocol.messages.user_scram_credential_record import UserScramCredentialRecord

_ARGUMENT = re.compile(r"\s*([\w-]+)=\[(.*)\]\s*", re.DOTALL)
_FIELDS = ("name", "password", "salt", "iterations", "saltedpassword")
_EXAMPLE = "SCRAM-SHA-256=[name=alice,password=…,iterations=8192]"


def parse_scram_user(argument: Secret) -> UserScramCredentialRecord:
    """Parse ``SCRAM-SHA-256=[name=alice,password=…]``. Raises ConfigError, which does not repeat it."""
    match = _ARGUMENT.fullmatch(argument.reveal())
    if match is None:
        raise ConfigError(f"A value of --add-scram is malformed. Write {_EXAMPLE}")
    mechanism = MECHANISM_OF.get(match[1])
    if mechanism is None:
        raise ConfigError(f"--add-scram: unknown mechanism {match[1]!r}. Use {' or '.join(MECHANISM_OF)}")
    fields = {}
    for part in match[2].split(","):
        name, equals, value = part.strip().partition("=")
        if not equals or name not in _FIELDS:
            raise ConfigError(f"--add-scram has an unknown field. Write {_EXAMPLE}")
        fields[name] = value.removeprefix('"').removesuffix('"')
    return _record(mechanism, fields)


def _record(mechanism: ScramMechanism, fields: dict[str, str]) -> UserScramCredentialRecord:
    name = fields.get("name")
    if not name:
        raise ConfigError(f"--add-scram lacks the name of the user. Write {_EXAMPLE}")
    iterations_text = fields.get("iterations", str(MIN_ITERATIONS))
    iterations = int(iterations_text) if iterations_text.isdecimal() else -1
    if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
        raise ConfigError(
            f"--add-scram: iterations={iterations_text} of user {name!r}. Use {MIN_ITERATIONS} to "
            f"{MAX_ITERATIONS}"
        )
    salt = _base64(fields["salt"], name) if "salt" in fields else new_salt()
    if "password" in fields:
        salted = salted_password(mechanism, Secret(fields["password"]), salt, iterations)
    elif "saltedpassword" in fields and "salt" in fields:
        salted = _base64(fields["saltedpassword"], name)
    else:
        raise ConfigError(
            f"--add-scram: user {name!r} has no password. Add password=…, or saltedpassword=… with its salt=…"
        )
    credential = credential_from_salted_password(mechanism, salted, salt, iterations)
    return UserScramCredentialRecord(
        name=name,
        mechanism=mechanism.value,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=iterations,
    )


def _base64(text: str, user: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ConfigError(f"--add-scram: salt or saltedpassword of user {user!r} is not base64") from None
