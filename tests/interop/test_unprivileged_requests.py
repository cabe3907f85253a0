"""What clients without permissions, or in the middle of their log-in, can make a real node do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ruslo.client.admin.admin import Admin
from ruslo.model.errors import ErrorCode
from ruslo.model.scram import ScramMechanism
from ruslo.model.secret import Secret
from ruslo.net.sasl.plain import PlainClient
from ruslo.net.sasl.scram import ScramClient
from ruslo.protocol.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from ruslo.protocol.messages.alter_client_quotas_response import AlterClientQuotasResponse
from ruslo.protocol.messages.api_versions_request import ApiVersionsRequest
from ruslo.protocol.messages.api_versions_response import ApiVersionsResponse
from ruslo.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ruslo.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from ruslo.protocol.messages.metadata_request import MetadataRequest
from ruslo.protocol.messages.metadata_response import MetadataResponse
from ruslo.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from ruslo.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from ruslo.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from ruslo.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from tests.support.brokers.ruslo import RusloNode
from tests.support.brokers.secured import USERS, Secured, secured_node
from tests.support.clients.raw_client import RawClient, connected


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    made = secured_node(RusloNode, tmp_path_factory.mktemp("unprivileged"))
    made.node.start()
    try:
        yield made
    finally:
        made.node.stop()


async def choose(client: RawClient, mechanism: str) -> None:
    response = await client.call(SaslHandshakeRequest(mechanism=mechanism), SaslHandshakeResponse, 1)
    assert response.error_code == 0


async def authenticate(client: RawClient, message: bytes) -> bytes:
    request = SaslAuthenticateRequest(auth_bytes=message)
    response = await client.call(request, SaslAuthenticateResponse, 2)
    assert response.error_code == 0
    return bytes(response.auth_bytes)


async def topics(secured: Secured) -> set[str | None]:
    async with connected(secured.addresses["PLAINTEXT"]) as administrator:
        response = await administrator.call(MetadataRequest(topics=None), MetadataResponse)
    return {each.name for each in response.topics}


async def test_only_a_client_that_may_describe_a_key_creates_the_topic_of_coordinators(
    secured: Secured,
) -> None:
    kinds = {"g": 0, "t": 1}
    requests = [(FindCoordinatorRequest(key=key, key_type=kind), 3) for key, kind in kinds.items()]
    requests += [
        (FindCoordinatorRequest(coordinator_keys=[key], key_type=kind), 4) for key, kind in kinds.items()
    ]
    async with connected(secured.addresses["SASL_PLAINTEXT"]) as client:
        await choose(client, "PLAIN")
        await authenticate(client, PlainClient("carol", Secret(USERS["carol"])).respond(b""))
        denied = {ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
        for request, version in requests:
            response = await client.call(request, FindCoordinatorResponse, version)
            assert {response.error_code, *(each.error_code for each in response.coordinators)} - {0} <= denied
    assert await topics(secured) == set()
    async with connected(secured.addresses["PLAINTEXT"]) as administrator:
        for request, version in requests[:2]:
            assert (await administrator.call(request, FindCoordinatorResponse, version)).error_code == 0
    assert await topics(secured) == {"__consumer_offsets", "__transaction_state"}


async def test_a_flood_before_the_log_in_uses_no_quota(secured: Secured) -> None:
    """All clients are ANONYMOUS before their log-in."""
    operations = [OpData(key="request_percentage", value=0.0001)]
    everyone = EntryData(entity=[EntityData(entity_type="user", entity_name=None)], ops=operations)
    async with connected(secured.addresses["PLAINTEXT"]) as administrator:
        request = AlterClientQuotasRequest(entries=[everyone])
        response = await administrator.call(request, AlterClientQuotasResponse)
        assert response.entries[0].error_code == 0
        hello = ApiVersionsRequest(client_software_name="x", client_software_version="1")
        async with connected(secured.addresses["SASL_PLAINTEXT"]) as client:
            for _ in range(50):
                client.send(hello, 3)
            waits = {(await client.receive(ApiVersionsResponse)).throttle_time_ms for _ in range(50)}
        assert waits == {0}
        operations[0].remove = True
        await administrator.call(request, AlterClientQuotasResponse)


async def test_a_user_deleted_during_its_log_in_does_not_get_in(secured: Secured) -> None:
    scram = ScramClient(ScramMechanism.SCRAM_SHA_256, "leaver", Secret("pw"))
    async with Admin(secured.addresses["PLAINTEXT"]) as admin:
        await admin.users.set_password("leaver", Secret("pw"), ScramMechanism.SCRAM_SHA_256)
        async with connected(secured.addresses["SASL_PLAINTEXT"]) as client:
            await choose(client, "SCRAM-SHA-256")
            await authenticate(client, scram.respond(b""))
            await admin.users.delete("leaver", [ScramMechanism.SCRAM_SHA_256])
            assert await client.read_to_the_end() == b""
