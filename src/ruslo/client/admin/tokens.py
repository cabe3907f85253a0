"""Delegation tokens: create, list, renew, expire (KIP-48)."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ruslo.client.wire.cluster import Cluster
from ruslo.model.principals import Principal
from ruslo.model.secret import Secret
from ruslo.net.channel import check_code
from ruslo.protocol.messages.create_delegation_token_request import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from ruslo.protocol.messages.create_delegation_token_response import CreateDelegationTokenResponse
from ruslo.protocol.messages.describe_delegation_token_request import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from ruslo.protocol.messages.describe_delegation_token_response import DescribeDelegationTokenResponse
from ruslo.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from ruslo.protocol.messages.expire_delegation_token_response import ExpireDelegationTokenResponse
from ruslo.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from ruslo.protocol.messages.renew_delegation_token_response import RenewDelegationTokenResponse

_DEFAULT_MS = -1
_OWNERS_FROM = 3
_AT_ONCE_MS = -1


class DelegationToken(NamedTuple):
    """A client logs in with SCRAM, the id as user and the HMAC as password, and tokenauth=true."""

    token_id: str
    hmac: Secret
    """In base64, as it is used as a password."""
    owner: Principal
    requester: Principal
    renewers: tuple[Principal, ...]
    issued_at_ms: int
    expires_at_ms: int
    max_at_ms: int
    """The token cannot be renewed beyond this time."""


class Tokens:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def create(
        self,
        *,
        renewers: Iterable[Principal] = (),
        max_lifetime_ms: int = _DEFAULT_MS,
        owner: Principal | None = None,
    ) -> DelegationToken:
        """A token of this client, or of another owner, which needs CREATE_TOKENS on that user."""
        listed = tuple(renewers)
        request = CreateDelegationTokenRequest(
            renewers=[
                CreatableRenewers(principal_type=each.type, principal_name=each.name) for each in listed
            ],
            max_lifetime_ms=max_lifetime_ms,
        )
        if owner is not None:
            request.owner_principal_type, request.owner_principal_name = owner.type, owner.name
        response = await self._cluster.controller(
            request, CreateDelegationTokenResponse, min_version=0 if owner is None else _OWNERS_FROM
        )
        check_code(response.error_code, "the controller created no delegation token")
        named = Principal(response.principal_type, response.principal_name)
        requester = Principal(
            response.token_requester_principal_type, response.token_requester_principal_name
        )
        return DelegationToken(
            response.token_id,
            _as_password(response.hmac),
            named,
            requester if requester.name else named,
            listed,
            response.issue_timestamp_ms,
            response.expiry_timestamp_ms,
            response.max_timestamp_ms,
        )

    async def list(self, owners: Sequence[Principal] | None = None) -> list[DelegationToken]:
        """The tokens that this client may see, of these owners or of all."""
        wanted = None
        if owners is not None:
            wanted = [
                DescribeDelegationTokenOwner(principal_type=each.type, principal_name=each.name)
                for each in owners
            ]
        request = DescribeDelegationTokenRequest(owners=wanted)

        async def attempt() -> list[DelegationToken]:
            response = await self._cluster.any_broker(request, DescribeDelegationTokenResponse)
            check_code(response.error_code, "the broker lists no delegation tokens")
            return [
                DelegationToken(
                    token.token_id,
                    _as_password(token.hmac),
                    Principal(token.principal_type, token.principal_name),
                    Principal(token.token_requester_principal_type, token.token_requester_principal_name),
                    tuple(Principal(each.principal_type, each.principal_name) for each in token.renewers),
                    token.issue_timestamp,
                    token.expiry_timestamp,
                    token.max_timestamp,
                )
                for token in response.tokens
            ]

        return await self._cluster.retrying(attempt)

    async def renew(self, hmac: Secret, period_ms: int = _DEFAULT_MS) -> int:
        """Returns the new expiry time, in milliseconds since the Unix epoch."""
        request = RenewDelegationTokenRequest(hmac=_as_bytes(hmac), renew_period_ms=period_ms)
        response = await self._cluster.controller(request, RenewDelegationTokenResponse)
        check_code(response.error_code, "the token was not renewed")
        return response.expiry_timestamp_ms

    async def expire(self, hmac: Secret, after_ms: int = _AT_ONCE_MS) -> int:
        """Expire a token after this time, or at once; returns the expiry time."""
        request = ExpireDelegationTokenRequest(hmac=_as_bytes(hmac), expiry_time_period_ms=after_ms)
        response = await self._cluster.controller(request, ExpireDelegationTokenResponse)
        check_code(response.error_code, "the token was not expired")
        return response.expiry_timestamp_ms


def _as_password(hmac: bytes | memoryview) -> Secret:
    return Secret(base64.b64encode(bytes(hmac)).decode())


def _as_bytes(hmac: Secret) -> bytes:
    return base64.b64decode(hmac.reveal())
