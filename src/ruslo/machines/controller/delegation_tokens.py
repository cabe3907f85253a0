"""Delegation tokens (KIP-48): create, renew, expire, and remove those that have expired.

A token is an id; its password is an HMAC of the id with ``delegation.token.secret.key``, which every node can
compute. The metadata log holds ids, owners and times, never a password.
"""

from __future__ import annotations

import hmac
from typing import TypeVar

from ruslo.machines.controller.records import DELEGATION_TOKENS_SUPPORTED, VersionedRecord
from ruslo.machines.controller.state import ControllerState, Decision
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import uuid_to_text
from ruslo.model.principals import USER, Principal, parse_principal
from ruslo.model.secret import Secret
from ruslo.protocol.messages.create_delegation_token_request import CreateDelegationTokenRequest
from ruslo.protocol.messages.create_delegation_token_response import CreateDelegationTokenResponse
from ruslo.protocol.messages.delegation_token_record import DelegationTokenRecord
from ruslo.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from ruslo.protocol.messages.expire_delegation_token_response import ExpireDelegationTokenResponse
from ruslo.protocol.messages.remove_delegation_token_record import RemoveDelegationTokenRecord
from ruslo.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from ruslo.protocol.messages.renew_delegation_token_response import RenewDelegationTokenResponse

MAX_EXPIRED_PER_EVENT = 1_000
_LONG_MAX = 2**63 - 1
RequestT = TypeVar("RequestT", RenewDelegationTokenRequest, ExpireDelegationTokenRequest)


def token_hmac(secret: Secret, token_id: str) -> bytes:
    """The password of a token, before it is written in base64."""
    return hmac.digest(secret.reveal().encode(), token_id.encode(), "sha512")


def create_delegation_token(
    state: ControllerState, request: CreateDelegationTokenRequest, requester: Principal, now_ms: int
) -> Decision[CreateDelegationTokenResponse]:
    owner = requester.base
    if request.owner_principal_name:
        owner = Principal(request.owner_principal_type or USER, request.owner_principal_name)
    response = CreateDelegationTokenResponse(
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
    )
    try:
        secret = _secret(state)
        if any(renewer.principal_type != USER for renewer in request.renewers):
            raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE)
    except KafkaError as error:
        response.error_code = error.code
        return (), response
    settings = state.settings
    lifetime_ms = settings.token_max_lifetime_ms
    if request.max_lifetime_ms > 0:
        lifetime_ms = min(lifetime_ms, request.max_lifetime_ms)
    max_ms = min(now_ms + lifetime_ms, _LONG_MAX)
    token_id = uuid_to_text(state.new_uuid())
    record = DelegationTokenRecord(
        owner=str(owner),
        requester=str(requester),
        renewers=[f"{renewer.principal_type}:{renewer.principal_name}" for renewer in request.renewers],
        issue_timestamp=now_ms,
        max_timestamp=max_ms,
        expiration_timestamp=min(max_ms, now_ms + settings.token_expiry_ms),
        token_id=token_id,
    )
    response.issue_timestamp_ms = now_ms
    response.expiry_timestamp_ms = record.expiration_timestamp
    response.max_timestamp_ms = max_ms
    response.token_id = token_id
    response.hmac = token_hmac(secret, token_id)
    return [(record, 0)], response


def renew_delegation_token(
    state: ControllerState, request: RenewDelegationTokenRequest, requester: Principal, now_ms: int
) -> Decision[RenewDelegationTokenResponse]:
    try:
        token = _find(state, bytes(request.hmac), requester)
        _check_not_expired(token, now_ms)
    except KafkaError as error:
        return (), RenewDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=-1)
    period_ms = state.settings.token_expiry_ms
    if request.renew_period_ms > 0:
        period_ms = min(period_ms, request.renew_period_ms)
    expires_ms = min(token.max_timestamp, now_ms + period_ms)
    return [_with_expiry(token, expires_ms)], RenewDelegationTokenResponse(expiry_timestamp_ms=expires_ms)


def expire_delegation_token(
    state: ControllerState, request: ExpireDelegationTokenRequest, requester: Principal, now_ms: int
) -> Decision[ExpireDelegationTokenResponse]:
    try:
        token = _find(state, bytes(request.hmac), requester)
        if request.expiry_time_period_ms < 0:
            removal: VersionedRecord = (RemoveDelegationTokenRecord(token_id=token.token_id), 0)
            return [removal], ExpireDelegationTokenResponse(expiry_timestamp_ms=now_ms)
        _check_not_expired(token, now_ms)
    except KafkaError as error:
        return (), ExpireDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=-1)
    expires_ms = min(token.max_timestamp, now_ms + request.expiry_time_period_ms)
    return [_with_expiry(token, expires_ms)], ExpireDelegationTokenResponse(expiry_timestamp_ms=expires_ms)


def expired_tokens(state: ControllerState, now_ms: int) -> list[VersionedRecord]:
    """The records that remove expired tokens; the rest follows in the next event."""
    expired = [token for token in state.image.security.tokens.values() if is_expired(token, now_ms)]
    return [
        (RemoveDelegationTokenRecord(token_id=token.token_id), 0) for token in expired[:MAX_EXPIRED_PER_EVENT]
    ]


def is_expired(token: DelegationTokenRecord, now_ms: int) -> bool:
    return min(token.max_timestamp, token.expiration_timestamp) < now_ms


def _secret(state: ControllerState) -> Secret:
    if state.settings.token_secret is None:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    if state.metadata_version < DELEGATION_TOKENS_SUPPORTED:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    return state.settings.token_secret


def _find(state: ControllerState, password: bytes, requester: Principal) -> DelegationTokenRecord:
    """The token with this HMAC, if the requester may change it."""
    secret = _secret(state)
    for token in state.image.security.tokens.values():
        if hmac.compare_digest(token_hmac(secret, token.token_id), password):
            allowed = {parse_principal(token.owner), *map(parse_principal, token.renewers)}
            if requester.base not in allowed:
                raise KafkaError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
            return token
    raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)


def _check_not_expired(token: DelegationTokenRecord, now_ms: int) -> None:
    if is_expired(token, now_ms):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)


def _with_expiry(token: DelegationTokenRecord, expires_ms: int) -> VersionedRecord:
    return (
        DelegationTokenRecord(
            owner=token.owner,
            requester=token.requester,
            renewers=list(token.renewers),
            issue_timestamp=token.issue_timestamp,
            max_timestamp=token.max_timestamp,
            expiration_timestamp=expires_ms,
            token_id=token.token_id,
        ),
        0,
    )
