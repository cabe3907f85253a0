"""Delegation tokens in every version of their requests, on a secured node."""

from __future__ import annotations

from pathlib import Path

from ruslo.protocol.messages.create_delegation_token_request import CreateDelegationTokenRequest
from ruslo.protocol.messages.create_delegation_token_response import CreateDelegationTokenResponse
from ruslo.protocol.messages.describe_delegation_token_request import DescribeDelegationTokenRequest
from ruslo.protocol.messages.describe_delegation_token_response import DescribeDelegationTokenResponse
from ruslo.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from ruslo.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from ruslo.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from ruslo.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from tests.support.brokers.ruslo import RusloNode
from tests.support.brokers.secured import USERS, secured_node
from tests.support.clients.raw_client import connected


async def test_only_version_3_names_the_requester_of_a_token(tmp_path: Path) -> None:
    secured = secured_node(RusloNode, tmp_path, {"delegation.token.secret.key": "a key of tests"})
    login = SaslAuthenticateRequest(auth_bytes=f"\0alice\0{USERS['alice']}".encode())
    with secured.node:
        async with connected(secured.addresses["SASL_PLAINTEXT"]) as client:
            await client.call(SaslHandshakeRequest(mechanism="PLAIN"), SaslHandshakeResponse)
            await client.call(login, SaslAuthenticateResponse)
            for version, requester in ((1, ""), (2, ""), (3, "alice")):
                request = CreateDelegationTokenRequest(max_lifetime_ms=-1)
                created = await client.call(request, CreateDelegationTokenResponse, version)
                assert (created.error_code, created.token_requester_principal_name) == (0, requester)
                query = DescribeDelegationTokenRequest(owners=None)
                described = await client.call(query, DescribeDelegationTokenResponse, version)
                assert {each.token_requester_principal_name for each in described.tokens} == {requester}
