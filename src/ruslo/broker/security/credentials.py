"""The SCRAM accounts of users and delegation tokens, from the metadata."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import TYPE_CHECKING

from ruslo.broker.metadata.loader import MetadataLoader
from ruslo.machines.controller.delegation_tokens import is_expired, token_hmac
from ruslo.model.clock import Clock
from ruslo.model.principals import parse_principal
from ruslo.model.scram import ScramCredential, ScramMechanism, new_credential
from ruslo.model.secret import Secret
from ruslo.net.sasl.mechanism import Identity
from ruslo.net.sasl.scram import ScramAccount

if TYPE_CHECKING:
    from ruslo.machines.controller.delta import MetadataDelta
    from ruslo.machines.controller.image import MetadataImage


class Credentials:
    def __init__(self, metadata: MetadataLoader, token_secret: Secret | None, clock: Clock) -> None:
        """``token_secret``: None if there are no delegation tokens."""
        self._metadata = metadata
        self._token_secret = token_secret
        self._clock = clock
        self._of_tokens: dict[tuple[str, ScramMechanism], ScramCredential] = {}
        """Computed when a token is used first: milliseconds of work for each."""
        metadata.subscribe(self._on_metadata_change)

    def finder(self, mechanism: ScramMechanism) -> Callable[[str, bool], ScramAccount | None]:
        """Finds the account of a user, or of a token if the flag is set."""

        def find(name: str, by_token: bool) -> ScramAccount | None:
            return self._token(name, mechanism) if by_token else self._user(name, mechanism)

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
            credential = new_credential(mechanism, Secret(password))
            self._of_tokens[token_id, mechanism] = credential
        owner = parse_principal(token.owner)
        expires_at_ms = min(token.expiration_timestamp, token.max_timestamp)
        return ScramAccount(credential, Identity(owner.name, token_id, expires_at_ms))

    def _on_metadata_change(self, delta: MetadataDelta, image: MetadataImage) -> None:
        for token_id in delta.changed_tokens - image.security.tokens.keys():
            for mechanism in ScramMechanism:
                self._of_tokens.pop((token_id, mechanism), None)
