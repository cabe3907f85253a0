"""AlterUserScramCredentials: which SCRAM credentials are written and removed (KIP-554)."""

from __future__ import annotations

from collections import Counter

from ruslo.machines.controller.records import SCRAM_SUPPORTED, VersionedRecord
from ruslo.machines.controller.state import ControllerState, Decision
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.scram import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    ScramMechanism,
    credential_from_salted_password,
)
from ruslo.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ruslo.protocol.messages.alter_user_scram_credentials_response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from ruslo.protocol.messages.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from ruslo.protocol.messages.user_scram_credential_record import UserScramCredentialRecord


def alter_user_scram_credentials(
    state: ControllerState, request: AlterUserScramCredentialsRequest
) -> Decision[AlterUserScramCredentialsResponse]:
    changes: list[ScramCredentialDeletion | ScramCredentialUpsertion] = [
        *request.deletions,
        *request.upsertions,
    ]
    mentions = Counter(each.name for each in changes)
    records: list[VersionedRecord] = []
    results: dict[str, AlterUserScramCredentialsResult] = {}
    for each in changes:
        result = AlterUserScramCredentialsResult(user=each.name, error_message=None)
        try:
            record = _change(state, each, mentions[each.name])
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
        else:
            records.append((record, 0))
        results[each.name] = result
    return records, AlterUserScramCredentialsResponse(results=list(results.values()))


def _change(
    state: ControllerState, change: ScramCredentialDeletion | ScramCredentialUpsertion, mentions: int
) -> RemoveUserScramCredentialRecord | UserScramCredentialRecord:
    if mentions > 1:
        raise KafkaError(
            ErrorCode.DUPLICATE_RESOURCE,
            f"The credentials of {change.name!r} are altered twice in the request. Send one change per user",
        )
    if state.metadata_version < SCRAM_SUPPORTED:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "The finalized metadata.version does not support SCRAM. Raise it with 'ruslo cluster' or "
            "kafka-features",
        )
    if not change.name:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "The user name is empty. Name a user")
    if change.mechanism not in ScramMechanism._value2member_map_:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            f"Unknown SCRAM mechanism {change.mechanism}. Use 1 (SCRAM-SHA-256) or 2 (SCRAM-SHA-512)",
        )
    if isinstance(change, ScramCredentialUpsertion):
        return _upsertion(change)
    if (change.name, change.mechanism) not in state.image.security.scram_credentials:
        raise KafkaError(
            ErrorCode.RESOURCE_NOT_FOUND,
            f"User {change.name!r} has no {ScramMechanism(change.mechanism).sasl_name} credentials",
        )
    return RemoveUserScramCredentialRecord(name=change.name, mechanism=change.mechanism)


def _upsertion(change: ScramCredentialUpsertion) -> UserScramCredentialRecord:
    if not MIN_ITERATIONS <= change.iterations <= MAX_ITERATIONS:
        raise KafkaError(
            ErrorCode.UNACCEPTABLE_CREDENTIAL,
            f"{'Too few' if change.iterations < MIN_ITERATIONS else 'Too many'} iterations: "
            f"{change.iterations}. Use {MIN_ITERATIONS} to {MAX_ITERATIONS}",
        )
    credential = credential_from_salted_password(
        ScramMechanism(change.mechanism), bytes(change.salted_password), bytes(change.salt), change.iterations
    )
    return UserScramCredentialRecord(
        name=change.name,
        mechanism=change.mechanism,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )
