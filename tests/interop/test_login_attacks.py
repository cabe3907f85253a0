"""Attacks on the log-in of a real node, with raw sockets: what a client may do before it is authenticated."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import ssl
import struct
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.tokens import DelegationToken
from ruslo.client.admin.topics import NewTopic
from ruslo.client.settings.channel_security import channel_security
from ruslo.model.acls import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from ruslo.model.errors import ErrorCode
from ruslo.model.scram import MECHANISM_OF, ScramMechanism
from ruslo.model.secret import Secret
from ruslo.net.channel import ChannelSettings
from ruslo.net.sasl.oauthbearer import OAuthBearerClient
from ruslo.net.sasl.plain import PlainClient
from ruslo.net.sasl.scram import ScramClient
from ruslo.protocol.message import Message
from ruslo.protocol.messages.api_versions_request import ApiVersionsRequest
from ruslo.protocol.messages.api_versions_response import ApiVersionsResponse
from ruslo.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from ruslo.protocol.messages.fetch_response import FetchResponse
from ruslo.protocol.messages.metadata_request import MetadataRequest
from ruslo.protocol.messages.metadata_response import MetadataResponse
from ruslo.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ruslo.protocol.messages.produce_response import ProduceResponse
from ruslo.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from ruslo.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from ruslo.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from ruslo.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from tests.support.brokers.live_node import batch_of
from tests.support.brokers.metrics import Scrape, http_request
from tests.support.brokers.ruslo import RusloNode
from tests.support.brokers.secured import SCRAM, USERS, Secured, add_scram_users, secured_node
from tests.support.clients.raw_client import RawClient, connected, frame
from tests.support.network.oauth_provider import AUDIENCE, ISSUER, OAuthProvider
from tests.support.network.ports import free_port

OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
METRICS = f"127.0.0.1:{free_port()}"
FAILURE = "Authentication failed during authentication due to invalid credentials with SASL mechanism "


class Target(NamedTuple):
    secured: Secured
    provider: OAuthProvider

    @property
    def address(self) -> str:
        return self.secured.addresses["SASL_PLAINTEXT"]

    def log(self) -> str:
        return self.secured.node.log_file.read_text()


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("attacked")
    with OAuthProvider() as provider:
        keys = provider.write_keys(folder / "keys.json")
        properties = {
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            "listener.name.sasl_ssl.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config": OAUTH_MODULE,
            "sasl.oauthbearer.jwks.endpoint.url": keys,
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "connection.failed.authentication.delay.ms": "20",
            "listener.name.sasl_plaintext.scram-sha-256.connections.max.reauth.ms": "600000",
            "listener.name.sasl_plaintext.scram-sha-512.connections.max.reauth.ms": "1",
            "ruslo.metrics.listener": METRICS,
            "delegation.token.secret.key": "attacked",
        }
        secured = secured_node(RusloNode, folder, properties)
        secured.node.start()
        try:
            asyncio.run(add_scram_users(secured.addresses["PLAINTEXT"]))
            yield Target(secured, provider)
        finally:
            secured.node.stop()


async def choose(client: RawClient, mechanism: str, version: int = 1) -> ErrorCode:
    request = SaslHandshakeRequest(mechanism=mechanism)
    response = await client.call(request, SaslHandshakeResponse, version)
    return ErrorCode(response.error_code)


async def authenticate(client: RawClient, token: bytes) -> SaslAuthenticateResponse:
    return await client.call(SaslAuthenticateRequest(auth_bytes=token), SaslAuthenticateResponse, 2)


async def log_in(client: RawClient, user: str, password: str, mechanism: str) -> SaslAuthenticateResponse:
    """A whole SCRAM exchange; returns the last response."""
    assert await choose(client, mechanism) is ErrorCode.NONE
    scram = ScramClient(MECHANISM_OF[mechanism], user, Secret(password))
    first = await authenticate(client, scram.respond(b""))
    return await authenticate(client, scram.respond(bytes(first.auth_bytes)))


async def refusal(target: Target, mechanism: str, *tokens: bytes) -> str | None:
    """The error message of the last token; the connection is closed after it."""
    async with connected(target.address) as client:
        assert await choose(client, mechanism) is ErrorCode.NONE
        for token in tokens:
            response = await authenticate(client, token)
        assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert await client.read_to_the_end() == b""
        return response.error_message


async def is_served(client: RawClient) -> bool:
    return bool((await client.call(MetadataRequest(topics=[]), MetadataResponse)).brokers)


@pytest.mark.parametrize("request_", [MetadataRequest(topics=[]), FetchRequest()])
@pytest.mark.parametrize("chosen", [False, True])
async def test_requests_before_the_log_in_close_the_connection(
    target: Target, request_: Message, chosen: bool
) -> None:
    async with connected(target.address) as client:
        await client.call(ApiVersionsRequest(), ApiVersionsResponse, 3)
        if chosen:
            assert await choose(client, "SCRAM-SHA-256") is ErrorCode.NONE
        client.send(request_)
        assert await client.read_to_the_end() == b""


async def test_api_versions_after_the_choice_of_a_mechanism_is_an_illegal_state(target: Target) -> None:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    async with connected(target.address) as client:
        assert (await client.call(request, ApiVersionsResponse, 3)).error_code == ErrorCode.NONE
        assert await choose(client, "SCRAM-SHA-256") is ErrorCode.NONE
        assert (await client.call(request, ApiVersionsResponse, 3)).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert await client.read_to_the_end() == b""


async def test_mechanisms_that_are_not_enabled_are_refused(target: Target) -> None:
    for mechanism in ("GSSAPI", "ANONYMOUS", "plain", "", "SCRAM-SHA-1"):
        async with connected(target.address) as client:
            assert await choose(client, mechanism) is ErrorCode.UNSUPPORTED_SASL_MECHANISM
            assert await client.read_to_the_end() == b""


async def test_a_mechanism_cannot_be_exchanged_in_the_middle(target: Target) -> None:
    async with connected(target.address) as client:
        assert await choose(client, "SCRAM-SHA-512") is ErrorCode.NONE
        assert await choose(client, "PLAIN") is ErrorCode.ILLEGAL_SASL_STATE
        assert await client.read_to_the_end() == b""
    async with connected(target.address) as client:
        assert (await authenticate(client, b"x")).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert await client.read_to_the_end() == b""


async def test_a_credential_of_one_scram_mechanism_does_not_open_the_other(target: Target) -> None:
    async with Admin(target.secured.addresses["PLAINTEXT"]) as admin:
        await admin.users.set_password("only-256", Secret("pw"), ScramMechanism.SCRAM_SHA_256)
    async with connected(target.address) as client:
        assert (await log_in(client, "only-256", "pw", "SCRAM-SHA-256")).error_code == 0
        assert await is_served(client)
    async with connected(target.address) as client:
        response = await log_in(client, "only-256", "pw", "SCRAM-SHA-512")
        assert response.error_message == FAILURE + "SCRAM-SHA-512"


async def test_a_replayed_scram_exchange_fails(target: Target) -> None:
    recorded: list[bytes] = []
    scram = ScramClient(ScramMechanism.SCRAM_SHA_256, "alice", Secret(USERS["alice"]))
    async with connected(target.address) as client:
        await choose(client, "SCRAM-SHA-256")
        recorded.append(scram.respond(b""))
        first = await authenticate(client, recorded[0])
        recorded.append(scram.respond(bytes(first.auth_bytes)))
        assert (await authenticate(client, recorded[1])).error_code == 0
        assert await is_served(client)
    assert await refusal(target, "SCRAM-SHA-256", *recorded) == FAILURE + "SCRAM-SHA-256"


@pytest.mark.parametrize("mechanism", SCRAM)
async def test_malformed_scram_messages_fail_alike(target: Target, mechanism: str) -> None:
    first = b"n,,n=alice,r=nonce"
    without_proof = b"c=biws,r=nonce"
    proof = base64.b64encode(bytes(hashlib.new(MECHANISM_OF[mechanism].digest).digest_size))
    attempts = [
        (b"",),
        (b"n,,n=alice",),
        (b"p=tls-unique,,n=alice,r=nonce",),
        (b"\xff\xfe",),
        (first[:-6],),
        (first, first),
        (first, b""),
        (first, without_proof),
        (first, without_proof + b",p="),
        (first, without_proof + b",p=AAAA"),
        (first, without_proof + b",p=" + proof),
    ]
    for tokens in attempts:
        assert await refusal(target, mechanism, *tokens) == FAILURE + mechanism


async def test_an_unknown_user_looks_like_a_known_one(target: Target) -> None:
    """Same messages, same sizes, a salt that stays the same and differs by mechanism, as many iterations."""
    seen: dict[tuple[str, str], set[bytes]] = {}
    for user in ("alice", "stranger", "alice", "stranger"):
        for mechanism in SCRAM:
            async with connected(target.address) as client:
                await choose(client, mechanism)
                first = await authenticate(client, f"n,,n={user},r=nonce".encode())
                assert first.error_code == 0
                _, salt, iterations = bytes(first.auth_bytes).split(b",")
                assert iterations == b"i=4096"
                seen.setdefault((user, mechanism), set()).add(salt)
            async with connected(target.address) as client:
                refused = await log_in(client, user, "wrong", mechanism)
                assert refused.error_message == FAILURE + mechanism
    salts = [salt for each in seen.values() for salt in each]
    assert len(salts) == len(set(salts)) == len(seen)
    assert {len(salt) for salt in salts} == {len(salts[0])}
    plain = {
        await refusal(target, "PLAIN", PlainClient(user, Secret("wrong")).respond(b""))
        for user in ("alice", "stranger")
    }
    assert plain == {"Authentication failed: Invalid username or password"}


async def test_large_frames_before_the_log_in_are_refused_by_their_size(target: Target) -> None:
    """The size alone is enough: nothing of such a frame is received."""
    for mechanism, size in ((None, 4 * 1024 + 1), ("SCRAM-SHA-256", 6 * 1024), ("OAUTHBEARER", 600_000)):
        async with connected(target.address) as client:
            if mechanism is not None:
                await choose(client, mechanism)
            client.send_bytes(struct.pack(">i", size))
            assert await client.read_to_the_end() == b""


async def test_half_open_connections_take_little_memory(target: Target) -> None:
    """Announced sizes take no memory, and a connection that waits has a small buffer."""
    before = resident_bytes(target.secured.node.pid)
    connections = 500
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connected(target.address)) for _ in range(connections)]
        for client in clients:
            await choose(client, "OAUTHBEARER")
            client.send_bytes(struct.pack(">i", 500_000) + bytes(1000))
        async with connected(target.address) as other:
            assert (await log_in(other, "alice", USERS["alice"], "SCRAM-SHA-256")).error_code == 0
            assert await is_served(other)
        assert resident_bytes(target.secured.node.pid) - before < connections * 64 * 1024


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def bearer(token: str) -> bytes:
    return OAuthBearerClient(Secret(token)).respond(b"")


async def test_signed_tokens_log_in(target: Target) -> None:
    for key in ("rsa", "ec"):
        async with connected(target.address) as client:
            await choose(client, "OAUTHBEARER")
            response = await authenticate(client, bearer(target.provider.token("alice", key)))
            assert (response.error_code, response.session_lifetime_ms > 0) == (0, True)
            assert await is_served(client)


async def test_forged_and_expired_tokens_are_refused(target: Target) -> None:
    provider = target.provider
    payload = provider.token("admin").split(".")[1]
    public = json.dumps(provider.keys[0])
    signed_by_public_key = f"{part({'alg': 'HS256', 'kid': 'rsa'})}.{payload}"
    mac = hmac.digest(public.encode(), signed_by_public_key.encode(), "sha256")
    with OAuthProvider() as other:
        stranger = other.token("admin")
    head, body, signature = provider.token("alice").split(".")
    nested = base64.urlsafe_b64encode(b"[" * 100_000).rstrip(b"=").decode()
    tokens = [
        f"{part({'alg': 'none'})}.{payload}.",
        f"{part({'alg': 'None', 'kid': 'rsa'})}.{payload}.",
        f"{signed_by_public_key}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}",
        stranger,
        f"{head}.{payload}.{signature}",
        f"{head}.{body}.",
        f"{nested}.{body}.{signature}",
        provider.token("admin", aud="other"),
        provider.token("admin", iss="https://other.test"),
        provider.token("admin", exp=1_000_000_000),
        provider.token("admin", exp=None),
        provider.token("admin", nbf=9_000_000_000),
        provider.token("admin", sub=None),
        provider.token("", sub=""),
        "x" * 400_000,
    ]
    for token in tokens:
        async with connected(target.address) as client:
            await choose(client, "OAUTHBEARER")
            response = await authenticate(client, bearer(token))
            # The client acknowledges the error, then the exchange fails (RFC 7628).
            assert bytes(response.auth_bytes) == b'{"status":"invalid_token"}', token[:200]
            response = await authenticate(client, b"\x01")
            assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert await client.read_to_the_end() == b""
    assert "Traceback" not in target.log()


def part(content: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()


async def test_a_new_key_of_the_provider_is_found_without_a_restart(target: Target) -> None:
    target.provider.add_key("rotated", "RS256")
    target.provider.write_keys(target.secured.folder / "keys.json")
    async with connected(target.address) as client:
        await choose(client, "OAUTHBEARER")
        response = await authenticate(client, bearer(target.provider.token("alice", "rotated")))
        assert (response.error_code, bytes(response.auth_bytes)) == (0, b"")


async def test_another_principal_is_refused_when_a_client_authenticates_again(target: Target) -> None:
    async with connected(target.address) as client:
        assert (await log_in(client, "alice", USERS["alice"], "SCRAM-SHA-256")).error_code == 0
        assert await is_served(client)
        refused = await log_in(client, "bob", USERS["bob"], "SCRAM-SHA-256")
        assert refused.error_message == (
            "Cannot change principals during re-authentication from User.alice: User.bob"
        )
        assert await client.read_to_the_end() == b""
    async with connected(target.address) as client:
        assert (await log_in(client, "alice", USERS["alice"], "SCRAM-SHA-256")).error_code == 0
        assert await choose(client, "PLAIN") is ErrorCode.SASL_AUTHENTICATION_FAILED
        assert await client.read_to_the_end() == b""


async def test_a_client_whose_session_has_ended_is_closed_at_its_next_request(target: Target) -> None:
    async with connected(target.address) as client:
        response = await log_in(client, "alice", USERS["alice"], "SCRAM-SHA-512")
        assert (response.error_code, response.session_lifetime_ms) == (0, 1)
        with pytest.raises(asyncio.IncompleteReadError):
            await use_for_ever(client)


async def use_for_ever(client: RawClient) -> None:
    while True:
        await client.call(MetadataRequest(topics=[]), MetadataResponse)


async def test_a_client_whose_session_does_not_end_may_not_authenticate_again(target: Target) -> None:
    async with connected(target.address) as client:
        await choose(client, "PLAIN")
        token = PlainClient("alice", Secret(USERS["alice"])).respond(b"")
        assert (await authenticate(client, token)).error_code == 0
        assert await choose(client, "PLAIN") is ErrorCode.ILLEGAL_SASL_STATE
        assert await is_served(client)


async def test_log_ins_are_counted_by_listener(target: Target) -> None:
    before = await login_counts()
    async with connected(target.address) as client:
        assert (await log_in(client, "alice", USERS["alice"], "SCRAM-SHA-256")).error_code == 0
    for _ in range(2):
        async with connected(target.address) as client:
            assert (await log_in(client, "alice", "wrong", "SCRAM-SHA-256")).error_code
    assert [now - then for now, then in zip(await login_counts(), before, strict=True)] == [1, 2]


async def login_counts() -> list[float]:
    """Successful and failed log-ins on the SASL listener."""
    _, text = await http_request(METRICS, "/metrics")
    scrape = Scrape(text)
    counts = []
    for result in ("successful", "failed"):
        name = f"kafka_server_socket_server_metrics_{result}_authentication_total"
        count = scrape.value(name, listener="SASL_PLAINTEXT")
        assert count is not None
        counts.append(count)
    return counts


async def test_failing_log_ins_in_the_old_form_are_closed(target: Target) -> None:
    """After SaslHandshake v0 tokens are frames without a header, and a failure has no response."""
    async with connected(target.address) as client:
        await choose(client, "PLAIN", version=0)
        client.send_bytes(frame(b"\0alice\0wrong") + frame(b"\0alice\0" + USERS["alice"].encode()))
        assert await client.read_to_the_end() == b""
    async with connected(target.address) as client:
        await choose(client, "PLAIN", version=0)
        client.send_bytes(frame(b"\0alice\0" + USERS["alice"].encode()))
        assert await client.read_frame() == b""
        assert await is_served(client)


async def test_others_are_served_during_a_thousand_failing_log_ins(target: Target) -> None:
    async def fail(number: int) -> None:
        async with connected(target.address) as client:
            assert (await log_in(client, f"user-{number}", "wrong", "SCRAM-SHA-256")).error_code

    lines = len(target.log().splitlines())
    async with connected(target.address) as client, asyncio.TaskGroup() as group:
        assert (await log_in(client, "alice", USERS["alice"], "SCRAM-SHA-256")).error_code == 0
        attackers = [group.create_task(fail(number)) for number in range(1000)]
        while not all(attacker.done() for attacker in attackers):
            assert await is_served(client)
    assert len(target.log().splitlines()) - lines < 10


async def test_a_deleted_user_is_disconnected(target: Target) -> None:
    async with Admin(target.secured.addresses["PLAINTEXT"]) as admin:
        await admin.users.set_password("leaver", Secret("pw"), ScramMechanism.SCRAM_SHA_256)
        async with connected(target.address) as client:
            assert (await log_in(client, "leaver", "pw", "SCRAM-SHA-256")).error_code == 0
            assert await is_served(client)
            await admin.users.delete("leaver", [ScramMechanism.SCRAM_SHA_256])
            assert await client.read_to_the_end() == b""
        async with connected(target.address) as client:
            assert (await log_in(client, "leaver", "pw", "SCRAM-SHA-256")).error_code


async def test_a_failed_log_in_has_one_response_whatever_follows_it(target: Target) -> None:
    """What a client sends after its failure is not handled, so that one connection waits for one delay."""
    wrong = PlainClient("alice", Secret("wrong")).respond(b"")
    right = PlainClient("alice", Secret(USERS["alice"])).respond(b"")
    async with connected(target.address) as client:
        await choose(client, "PLAIN")
        for token in (wrong, *[right] * 500):
            client.send(SaslAuthenticateRequest(auth_bytes=token), 2)
        client.send(MetadataRequest(topics=[]))
        assert (await client.receive(SaslAuthenticateResponse)).error_code
        assert await client.read_to_the_end() == b""


async def test_failing_log_ins_leave_nothing_behind(target: Target) -> None:
    """Connections end with their delay, even if the client has left without reading the response."""
    wrong = PlainClient("alice", Secret("wrong")).respond(b"")

    async def fail(number: int) -> None:
        async with connected(target.address) as client:
            await choose(client, "PLAIN", version=number % 2)
            if number % 2:
                client.send(SaslAuthenticateRequest(auth_bytes=wrong), 2)
            else:
                client.send_bytes(frame(wrong))

    before = 0
    for attempt in range(3):
        async with asyncio.TaskGroup() as group:
            for number in range(300):
                group.create_task(fail(number))
        while await open_connections():
            pass
        # The first round fills caches and allocator; after that the memory stays.
        if attempt:
            assert resident_bytes(target.secured.node.pid) - before < 4 * 1024 * 1024
        before = resident_bytes(target.secured.node.pid)


async def open_connections() -> float:
    _, text = await http_request(METRICS, "/metrics")
    count = Scrape(text).value(
        "kafka_server_socket_server_metrics_connection_count", listener="SASL_PLAINTEXT"
    )
    assert count is not None
    return count


async def test_a_flood_of_authentications_keeps_the_session_and_does_no_work(target: Target) -> None:
    async with connected(target.address) as client:
        assert (await log_in(client, "alice", USERS["alice"], "SCRAM-SHA-256")).error_code == 0
        assert await choose(client, "SCRAM-SHA-256") is ErrorCode.NONE
        # The second one within a second, and all after it.
        for _ in range(500):
            client.send(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
        for _ in range(500):
            response = await client.receive(SaslHandshakeResponse)
            assert response.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert await is_served(client)


async def test_a_waiting_fetch_returns_no_records_once_its_acl_is_deleted(target: Target) -> None:
    bob, topic_name = "User:bob", "secrets"
    acl = Acl(ResourceType.TOPIC, topic_name, PatternType.LITERAL, bob, "*", Operation.READ, Permission.ALLOW)
    plaintext = target.secured.addresses["PLAINTEXT"]
    async with Admin(plaintext) as admin, connected(target.address) as client, connected(plaintext) as other:
        await admin.acls.create([acl])
        await admin.topics.create([NewTopic(topic_name, 1, 1)])
        topic_id = (await admin.topics.describe(topic_name)).topic_id
        assert (await log_in(client, "bob", USERS["bob"], "SCRAM-SHA-256")).error_code == 0
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        topic = FetchTopic(topic_id=topic_id, partitions=[partition])
        request = FetchRequest(max_wait_ms=600_000, min_bytes=1, max_bytes=1 << 20, topics=[topic])
        client.send(request)
        while not await waiting_requests():
            pass
        await admin.acls.delete([AclFilter(principal=bob)])
        produced = await other.call(
            ProduceRequest(
                acks=1,
                timeout_ms=5000,
                topic_data=[
                    TopicProduceData(
                        topic_id=topic_id,
                        partition_data=[PartitionProduceData(index=0, records=batch_of(b"secret"))],
                    )
                ],
            ),
            ProduceResponse,
        )
        assert produced.responses[0].partition_responses[0].error_code == 0
        response = await client.receive(FetchResponse)
        (result,) = response.responses[0].partitions
        assert result.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert not result.records


async def waiting_requests() -> float:
    _, text = await http_request(METRICS, "/metrics")
    return Scrape(text).value("kafka_network_requestchannel_requestqueuesize") or 0


async def log_in_by_token(client: RawClient, token: DelegationToken) -> SaslAuthenticateResponse:
    assert await choose(client, "SCRAM-SHA-256") is ErrorCode.NONE
    scram = ScramClient(ScramMechanism.SCRAM_SHA_256, token.token_id, token.hmac, token_auth=True)
    first = await authenticate(client, scram.respond(b""))
    return await authenticate(client, scram.respond(bytes(first.auth_bytes)))


def admin_of_alice(target: Target) -> Admin:
    settings = target.secured.client("SASL_PLAINTEXT", "alice", "PLAIN")
    return Admin(target.address, settings=ChannelSettings(security=channel_security(settings)))


async def test_a_removed_token_ends_its_connections(target: Target) -> None:
    async with admin_of_alice(target) as admin, connected(target.address) as client:
        token = await admin.tokens.create()
        assert (await log_in_by_token(client, token)).error_code == 0
        await admin.tokens.expire(token.hmac)
        assert await client.read_to_the_end() == b""
        async with connected(target.address) as again:
            assert (await log_in_by_token(again, token)).error_code


async def test_an_expired_token_ends_its_session(target: Target) -> None:
    async with admin_of_alice(target) as admin, connected(target.address) as client:
        token = await admin.tokens.create(max_lifetime_ms=1500)
        response = await log_in_by_token(client, token)
        assert (response.error_code, response.session_lifetime_ms <= 1500) == (0, True)
        with pytest.raises(asyncio.IncompleteReadError):
            await use_for_ever(client)
        # In its last millisecond the token still logs in, for a session of a millisecond.
        refused = ErrorCode.NONE
        while refused is ErrorCode.NONE:
            async with connected(target.address) as again:
                refused = ErrorCode((await log_in_by_token(again, token)).error_code)
        assert refused is ErrorCode.SASL_AUTHENTICATION_FAILED


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
async def test_old_versions_of_tls_are_refused(target: Target, version: ssl.TLSVersion) -> None:
    """The client would accept weak ciphers, too; the broker sends the alert protocol_version and closes."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with pytest.warns(DeprecationWarning, match="deprecated"):
        context.minimum_version = context.maximum_version = version
    context.set_ciphers("ALL:@SECLEVEL=0")
    for protocol in ("SSL", "SASL_SSL"):
        async with connected(target.secured.addresses[protocol]) as client:
            client.send_bytes(client_hello(context))
            alert = await client.read_to_the_end()
            assert (alert[0], alert[-2:]) == (0x15, b"\x02\x46")


async def test_three_thousand_clients_of_a_wrong_protocol_write_a_few_lines(target: Target) -> None:
    """TLS on a plain listener, plain requests on a TLS listener, HTTP on both: closed at once."""
    hello = client_hello()
    plain, tls = target.secured.addresses["PLAINTEXT"], target.secured.addresses["SSL"]
    request = struct.pack(">ihhih", 10, 18, 0, 1, -1)
    http = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    attempts = [(plain, hello), (target.address, hello), (tls, request), (plain, http), (tls, http)]
    lines = len(target.log().splitlines())

    async def attack(worker: int) -> None:
        for number in range(worker, 3000, 20):
            address, data = attempts[number % len(attempts)]
            async with connected(address) as client:
                client.send_bytes(data)
                await client.read_to_the_end()

    async with asyncio.TaskGroup() as group:
        for worker in range(20):
            group.create_task(attack(worker))
    assert len(target.log().splitlines()) - lines < 10


def client_hello(context: ssl.SSLContext | None = None) -> bytes:
    sent, context = ssl.MemoryBIO(), context or ssl.create_default_context()
    session = context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        session.do_handshake()
    return sent.read()
