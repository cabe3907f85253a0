"""The SCRAM accounts of users and delegation tokens, from the metadata."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ruslo.broker.metadata.loader import MetadataLoader
from ruslo.machines.controller.delegation_tokens import is_expired, token_hmac
from ruslo.model.clock import Clock
from ruslo.model.principals import parse_principal
from ruslo.model.scram import MIN_ITERATIONS, SALT_BYTES, ScramCredential, ScramMechanism, new_credential
from ruslo.model.secret import Secret
from ruslo.net.sasl.mechanism import Identity
from ruslo.net.sasl.scram import ScramAccount, unknown_account

if TYPE_CHECKING:
    from ruslo.machines.controller.delta import MetadataDelta
    from ruslo.machines.controller.image import MetadataImage


_SALT_LABEL = b"ruslo salts of unknown users\0"


class _MadeUp(NamedTuple):
    """Salts and iterations of users that do not exist: the same on all brokers and after a restart.

    Clients could otherwise tell that a user does not exist, by asking twice.
    """

    key: bytes
    """Derived from a secret of the cluster, which clients do not know."""
    iterations: dict[ScramMechanism, int]
    """The number that most users have."""

    def salt(self, mechanism: ScramMechanism, name: str) -> bytes:
        # Real users have another salt for each mechanism, so these must differ, too.
        return hmac.digest(self.key, f"{mechanism.name} {name}".encode(), "sha256")[:SALT_BYTES]


class Credentials:
    def __init__(self, metadata: MetadataLoader, token_secret: Secret | None, clock: Clock) -> None:
        """``token_secret``: None if there are no delegation tokens."""
        self._metadata = metadata
        self._token_secret = token_secret
        self._clock = clock
        self._of_tokens: dict[tuple[str, ScramMechanism], ScramCredential] = {}
        """Computed when a token is used first: milliseconds of work for each."""
        self._made_up: _MadeUp | None = None
        """None after the users changed: it is computed when it is needed."""
        metadata.subscribe(self._on_metadata_change)

    def finder(self, mechanism: ScramMechanism) -> Callable[[str, bool], ScramAccount]:
        """Finds the account of a user, or of a token if the flag is set; makes up those that do not exist."""

        def find(name: str, by_token: bool) -> ScramAccount:
            # Made up for users that exist, too: the time must not tell which users exist.
            made_up = self._making_up()
            iterations = MIN_ITERATIONS if by_token else made_up.iterations[mechanism]
            unknown = unknown_account(mechanism, name, made_up.salt(mechanism, name), iterations)
            found = self._token(name, mechanism) if by_token else self._user(name, mechanism)
            return unknown if found is None else found

        return find

    def _user(self, name: str, mechanism: ScramMechanism) -> ScramAccount | None:
        record = self._metadata.image.security.scram_credentials.get((name, mechanism.value))
        if record is None:
            return None
        credential = ScramCredential(
            bytes(record.salt), bytes(record.stored_key), bytes(record.server_key), record.iterations
        )
        return ScramAccount(credential, Identity(name))

    def _token(self, token_id: str, mechanism: ScramMechanism) -> ScramAccount | None:
        token = self._metadata.image.security.tokens.get(token_id)
        if token is None or self._token_secret is None or is_expired(token, self._clock.now_ms()):
            return None
        credential = self._of_tokens.get((token_id, mechanism))
        if credential is None:
            password = base64.b64encode(token_hmac(self._token_secret, token_id)).decode()
            # Not a random salt, which would differ by broker and so tell that the token exists.
            salt = self._making_up().salt(mechanism, token_id)
            credential = new_credential(mechanism, Secret(password), salt=salt)
            self._of_tokens[token_id, mechanism] = credential
        owner = parse_principal(token.owner)
        expires_at_ms = min(token.expiration_timestamp, token.max_timestamp)
        return ScramAccount(credential, Identity(owner.name, token_id, expires_at_ms))

    def _making_up(self) -> _MadeUp:
        if self._made_up is None:
            records = self._metadata.image.security.scram_credentials
            if self._token_secret is not None:
                secret = self._token_secret.reveal().encode()
            else:
                # Of all users: each one could compute it from its own password if it were of that user only.
                secret = b"".join(bytes(records[key].server_key) for key in sorted(records))
            used = {
                mechanism: Counter(
                    each.iterations for each in records.values() if each.mechanism == mechanism.value
                )
                for mechanism in ScramMechanism
            }
            self._made_up = _MadeUp(
                hashlib.sha256(_SALT_LABEL + secret).digest(),
                {mechanism: _most_frequent(counts) for mechanism, counts in used.items()},
            )
        return self._made_up

    def _on_metadata_change(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if delta.changed_users:
            self._made_up = None
        for token_id in delta.changed_tokens - image.security.tokens.keys():
            for mechanism in ScramMechanism:
                self._of_tokens.pop((token_id, mechanism), None)


def _most_frequent(iterations: Counter[int]) -> int:
    """The larger one of two that are as frequent, so that all brokers agree."""
    return max(iterations, key=lambda each: (iterations[each], each), default=MIN_ITERATIONS)
