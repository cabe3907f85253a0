from __future__ import annotations

import asyncio
from functools import partial

from ruslo.broker.quorum.peers import Peers, PeerSettings
from ruslo.machines.raft.rpc import (
    Answer,
    Ask,
    EndEpochAsk,
    EpochAnswer,
    ReplicaKey,
    VersionsAnswer,
    VersionsAsk,
    VoteAnswer,
    VoteAsk,
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
from tests.support.brokers.scripted_broker import Asked, ScriptedBroker, all_versions

SETTINGS = PeerSettings(
    cluster_id="cluster",
    client_id="raft-client-1",
    request_timeout_ms=5_000,
    fetch_max_bytes=1 << 20,
    snapshot_max_bytes=1 << 20,
)
GOODBYE = EndEpochAsk(4, 1, (ReplicaKey(2), ReplicaKey(3)))
PRE_VOTE = VoteAsk(4, ReplicaKey(1), ReplicaKey(2), 3, 10, pre_vote=True)


class Quorum:
    """The peers of node 1, and what became of what it asked."""

    def __init__(self) -> None:
        self.gone: list[int] = []
        self.peers = Peers(SETTINGS, on_gone=self.gone.append)

    def has_seen(self, deaths: int) -> bool:
        return len(self.gone) == deaths

    def keep(self, port: int) -> None:
        self.peers.keep(2, Endpoint("CONTROLLER", "127.0.0.1", port))

    async def ask(self, port: int, ask: Ask) -> Answer | None:
        answered: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()
        self.peers.ask(2, Endpoint("CONTROLLER", "127.0.0.1", port), ask, answered.set_result)
        return await answered


def farewell(asked: Asked) -> Message:
    if asked.api_key == ApiVersionsRequest.API_KEY:
        raise KeyError
    partition = PartitionData(leader_id=3, leader_epoch=5)
    return EndQuorumEpochResponse(
        topics=[TopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
        node_endpoints=[NodeEndpoint(node_id=3, host="c", port=9093)],
    )


async def test_an_answer_tells_who_leads_and_where() -> None:
    quorum = Quorum()
    async with ScriptedBroker(farewell) as broker:
        answer = await quorum.ask(broker.port, GOODBYE)
        assert answer == EpochAnswer(ErrorCode.NONE, 5, 3, Endpoint("", "c", 9093))
        await quorum.ask(broker.port, GOODBYE)
        assert broker.connections == 1, "one connection serves all"
    await quorum.peers.close()


async def test_a_process_that_has_ended_is_noticed_at_once() -> None:
    quorum = Quorum()
    async with ScriptedBroker(farewell) as broker:
        port = broker.port
        await quorum.ask(port, GOODBYE)
        assert quorum.gone == []
    # Its connection is closed and its port refuses: nobody has to ask it anything to find that out.
    await until(lambda: quorum.gone == [2])
    assert await quorum.ask(port, GOODBYE) is None
    await quorum.peers.close()


async def test_every_death_of_a_node_that_is_only_watched_is_noticed() -> None:
    quorum = Quorum()
    port = 0
    for deaths in (1, 2):
        async with ScriptedBroker(farewell, port=port) as broker:
            port = broker.port
            # As a leader does with every fetch of a voter: soon after it is back there is a connection.
            while not broker.connections:
                quorum.keep(port)
                await asyncio.sleep(0.05)
        await until(partial(quorum.has_seen, deaths))
    assert quorum.gone == [2, 2]
    await quorum.peers.close()


async def test_a_process_that_seems_to_listen_while_it_dies_is_knocked_at_again() -> None:
    quorum = Quorum()
    dying = False

    def script(asked: Asked) -> Message | None:
        return None if dying else farewell(asked)

    async with ScriptedBroker(script) as broker:
        await quorum.ask(broker.port, GOODBYE)
        dying = True
        broker.hang_up()
        await until(lambda: broker.connections == 2)
        assert quorum.gone == [], "it took the connection, and ended it without a word"
    await until(lambda: quorum.gone == [2])
    await quorum.peers.close()


async def test_a_node_that_was_never_there_is_not_gone() -> None:
    quorum = Quorum()
    async with ScriptedBroker(farewell) as broker:
        port = broker.port
    assert await quorum.ask(port, GOODBYE) is None
    assert quorum.gone == []
    await quorum.peers.close()


async def test_a_connection_that_breaks_alone_proves_nothing() -> None:
    quorum = Quorum()
    closing = False

    def script(asked: Asked) -> Message | None:
        return None if closing and asked.api_key != ApiVersionsRequest.API_KEY else farewell(asked)

    async with ScriptedBroker(script) as broker:
        await quorum.ask(broker.port, GOODBYE)
        closing = True
        assert await quorum.ask(broker.port, GOODBYE) is None
        closing = False
        assert await quorum.ask(broker.port, GOODBYE) is not None
        assert quorum.gone == []
        await quorum.peers.close()


async def test_voters_from_before_pre_votes_say_so() -> None:
    quorum = Quorum()

    def script(asked: Asked) -> Message:
        assert asked.api_key == ApiVersionsRequest.API_KEY, "the question is not even sent"
        return all_versions({VoteRequest.API_KEY: (0, 1)})

    async with ScriptedBroker(script) as broker:
        assert await quorum.ask(broker.port, PRE_VOTE) == VoteAnswer(ErrorCode.UNSUPPORTED_VERSION)
        await quorum.peers.close()


async def test_what_a_node_supports_is_known_from_its_first_answer() -> None:
    quorum = Quorum()

    def script(asked: Asked) -> Message:
        answer = all_versions()
        answer.supported_features = [SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)]
        return answer

    async with ScriptedBroker(script) as broker:
        assert await quorum.ask(broker.port, VersionsAsk()) == VersionsAnswer(kraft_versions=(0, 1))
        await quorum.peers.close()
