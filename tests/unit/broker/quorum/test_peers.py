from __future__ import annotations

import asyncio
from functools import partial

from ruslo.broker.quorum.peers import Peers, PeerSettings
from ruslo.machines.raft.rpc import (
    EndEpochRequest,
    EpochResponse,
    RaftRequest,
    RaftResponse,
    RaftVoteRequest,
    RaftVoteResponse,
    ReplicaKey,
    VersionsRequest,
    VersionsResponse,
)
from ruslo.machines.raft.voters import Endpoint
from ruslo.model.errors import ErrorCode
from ruslo.model.topics import METADATA_TOPIC
from ruslo.protocol.message import Message
from ruslo.protocol.messages.api_versions_request import ApiVersionsRequest
from ruslo.protocol.messages.api_versions_response import SupportedFeatureKey
from ruslo.protocol.messages.end_quorum_epoch_response import (
    EndQuorumEpochResponse,
    NodeEndpoint,
    PartitionData,
    TopicData,
)
from ruslo.protocol.messages.vote_request import VoteRequest
from tests.support.brokers.live_node import until
from tests.support.brokers.scripted_broker import ReceivedRequest, ScriptedBroker, all_versions

SETTINGS = PeerSettings(
    cluster_id="cluster",
    client_id="raft-client-1",
    request_timeout_ms=5_000,
    fetch_max_bytes=1 << 20,
    snapshot_max_bytes=1 << 20,
)
END_EPOCH = EndEpochRequest(4, 1, (ReplicaKey(2), ReplicaKey(3)))
PRE_VOTE = RaftVoteRequest(4, ReplicaKey(1), ReplicaKey(2), 3, 10, pre_vote=True)


class Quorum:
    """The peers of node 1 and the process deaths that it noticed."""

    def __init__(self) -> None:
        self.dead: list[int] = []
        self.peers = Peers(SETTINGS, on_gone=self.dead.append)

    def has_seen(self, deaths: int) -> bool:
        return len(self.dead) == deaths

    def watch(self, port: int) -> None:
        self.peers.watch(2, Endpoint("CONTROLLER", "127.0.0.1", port))

    async def request(self, port: int, request: RaftRequest) -> RaftResponse | None:
        received: asyncio.Future[RaftResponse | None] = asyncio.get_running_loop().create_future()
        self.peers.send(2, Endpoint("CONTROLLER", "127.0.0.1", port), request, received.set_result)
        return await received


def respond(received: ReceivedRequest) -> Message:
    if received.api_key == ApiVersionsRequest.API_KEY:
        raise KeyError
    partition = PartitionData(leader_id=3, leader_epoch=5)
    return EndQuorumEpochResponse(
        topics=[TopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
        node_endpoints=[NodeEndpoint(node_id=3, host="c", port=9093)],
    )


async def test_a_response_carries_the_leader_and_its_endpoint() -> None:
    quorum = Quorum()
    async with ScriptedBroker(respond) as broker:
        response = await quorum.request(broker.port, END_EPOCH)
        assert response == EpochResponse(ErrorCode.NONE, 5, 3, Endpoint("", "c", 9093))
        await quorum.request(broker.port, END_EPOCH)
        assert broker.connections == 1, "requests share one connection"
    await quorum.peers.close()


async def test_a_process_that_has_ended_is_noticed_at_once() -> None:
    quorum = Quorum()
    async with ScriptedBroker(respond) as broker:
        port = broker.port
        await quorum.request(port, END_EPOCH)
        assert quorum.dead == []
    # Its connection is closed and its port refuses connections, which is noticed without a request.
    await until(lambda: quorum.dead == [2])
    assert await quorum.request(port, END_EPOCH) is None
    await quorum.peers.close()


async def test_every_death_of_a_node_that_is_only_watched_is_noticed() -> None:
    quorum = Quorum()
    port = 0
    for deaths in (1, 2):
        async with ScriptedBroker(respond, port=port) as broker:
            port = broker.port
            # A leader does this with every fetch of a voter, so a connection exists soon after the voter
            # returns.
            while not broker.connections:
                quorum.watch(port)
                await asyncio.sleep(0.05)
        await until(partial(quorum.has_seen, deaths))
    assert quorum.dead == [2, 2]
    await quorum.peers.close()


async def test_dying_process_that_still_accepts_is_probed_again() -> None:
    quorum = Quorum()
    dying = False

    def script(received: ReceivedRequest) -> Message | None:
        return None if dying else respond(received)

    async with ScriptedBroker(script) as broker:
        await quorum.request(broker.port, END_EPOCH)
        dying = True
        broker.hang_up()
        await until(lambda: broker.connections == 2)
        assert quorum.dead == [], "the process accepted the connection and closed it"
    await until(lambda: quorum.dead == [2])
    await quorum.peers.close()


async def test_unreachable_node_that_never_connected_is_not_dead() -> None:
    quorum = Quorum()
    async with ScriptedBroker(respond) as broker:
        port = broker.port
    assert await quorum.request(port, END_EPOCH) is None
    assert quorum.dead == []
    await quorum.peers.close()


async def test_broken_connection_alone_proves_nothing() -> None:
    quorum = Quorum()
    closing = False

    def script(received: ReceivedRequest) -> Message | None:
        return None if closing and received.api_key != ApiVersionsRequest.API_KEY else respond(received)

    async with ScriptedBroker(script) as broker:
        await quorum.request(broker.port, END_EPOCH)
        closing = True
        assert await quorum.request(broker.port, END_EPOCH) is None
        closing = False
        assert await quorum.request(broker.port, END_EPOCH) is not None
        assert quorum.dead == []
        await quorum.peers.close()


async def test_voters_without_pre_votes_are_reported() -> None:
    quorum = Quorum()

    def script(received: ReceivedRequest) -> Message:
        assert received.api_key == ApiVersionsRequest.API_KEY, "no pre-vote is sent"
        return all_versions({VoteRequest.API_KEY: (0, 1)})

    async with ScriptedBroker(script) as broker:
        assert await quorum.request(broker.port, PRE_VOTE) == RaftVoteResponse(ErrorCode.UNSUPPORTED_VERSION)
        await quorum.peers.close()


async def test_supported_versions_come_from_the_api_versions_response() -> None:
    quorum = Quorum()

    def script(received: ReceivedRequest) -> Message:
        response = all_versions()
        response.supported_features = [
            SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)
        ]
        return response

    async with ScriptedBroker(script) as broker:
        assert await quorum.request(broker.port, VersionsRequest()) == VersionsResponse(kraft_versions=(0, 1))
        await quorum.peers.close()
