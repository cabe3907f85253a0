"""A cluster as a client sees it: brokers are found from any of them, requests go where they belong."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self, TypeVar

from ruslo.client.wire.bootstrap import Address, parse_bootstrap
from ruslo.client.wire.metadata import ClusterMetadata
from ruslo.model.clock import SystemClock
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import Uuid
from ruslo.model.topics import TopicPartition
from ruslo.net.channel import Connection, ConnectionSettings
from ruslo.net.errors import BrokerUnreachable, ConnectionLost
from ruslo.protocol.message import Message
from ruslo.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from ruslo.protocol.messages.metadata_response import MetadataResponse

R = TypeVar("R", bound=Message)
T = TypeVar("T")

_BACKOFF_MAX_MS = 1000


class Cluster:
    """``async with Cluster("host:9092,other:9092") as cluster``: connections are opened when first needed.

    Faults that may pass are retried with growing pauses until ``api_timeout_ms`` is over. A cluster that was
    never reached is reported at once.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        settings: ConnectionSettings | None = None,
        api_timeout_ms: int = 60_000,
        retry_backoff_ms: int = 50,
    ) -> None:
        self._bootstrap = parse_bootstrap(bootstrap_servers)
        self._settings = settings or ConnectionSettings()
        self._api_timeout_ms = api_timeout_ms
        self._retry_backoff_ms = retry_backoff_ms
        self._connections: dict[Address, Connection] = {}
        self._opening: dict[Address, asyncio.Lock] = {}
        self._known: ClusterMetadata | None = None
        self._clock = SystemClock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        connections, self._connections = list(self._connections.values()), {}
        for connection in connections:
            await connection.close()

    # -- where a request goes

    async def any_broker(self, message: Message, response_type: type[R], *, min_version: int = 0) -> R:
        connection = await self.any_connection()
        return await connection.request(message, response_type, min_version=min_version)

    async def controller(self, message: Message, response_type: type[R], *, min_version: int = 0) -> R:
        """To the node that Metadata names as controller; brokers pass on what only a controller can do."""
        known = self._known
        if known is None or known.controller_id not in known.nodes:
            known = await self.metadata([])
        if known.controller_id not in known.nodes:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "the cluster has no controller at the moment")
        return await self.node(known.controller_id, message, response_type, min_version=min_version)

    async def node(
        self,
        node_id: int,
        message: Message,
        response_type: type[R],
        *,
        min_version: int = 0,
        max_version: int | None = None,
        timeout_ms: int | None = None,
    ) -> R:
        connection = await self.connection(node_id)
        return await connection.request(
            message,
            response_type,
            min_version=min_version,
            max_version=max_version,
            timeout_ms=timeout_ms,
        )

    async def connection(self, node_id: int) -> Connection:
        known = self._known or await self.metadata([])
        if node_id not in known.nodes:
            known = await self.metadata([])
        node = known.nodes.get(node_id)
        if node is None:
            present = ", ".join(str(other) for other in sorted(known.nodes)) or "none"
            raise KafkaError(
                ErrorCode.BROKER_NOT_AVAILABLE, f"there is no broker {node_id}; there are: {present}"
            )
        return await self._open(Address(node.host, node.port))

    async def any_connection(self) -> Connection:
        for connection in self._connections.values():
            if not connection.closed:
                return connection
        nodes = [] if self._known is None else list(self._known.nodes.values())
        random.shuffle(nodes)
        candidates = dict.fromkeys([*(Address(node.host, node.port) for node in nodes), *self._bootstrap])
        problems: list[tuple[tuple[str, int], BaseException]] = []
        refusal: KafkaError | None = None
        for address in candidates:
            try:
                return await self._open(address)
            except BrokerUnreachable as error:
                problems.append((address, error.__cause__ or error))
            except KafkaError as error:
                refusal = refusal or error
        # Somebody who answers, but not as a broker should, tells more than those who do not answer.
        raise refusal or BrokerUnreachable.from_problems(problems)

    async def _open(self, address: Address) -> Connection:
        # One opener at a time for each address; the others share what it opened.
        async with self._opening.setdefault(address, asyncio.Lock()):
            connection = self._connections.get(address)
            if connection is None or connection.closed:
                connection = await Connection.open(*address, self._settings)
                self._connections[address] = connection
            return connection

    # -- metadata

    async def metadata(
        self, topics: Iterable[str] | None = None, *, allow_auto_topic_creation: bool = False
    ) -> ClusterMetadata:
        """Ask afresh, about all topics when none are named."""
        names = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=names, allow_auto_topic_creation=allow_auto_topic_creation)
        metadata = ClusterMetadata.from_response(
            await self.any_broker(request, MetadataResponse, min_version=4)
        )
        if self._known is not None and topics is not None:
            metadata.topics = {**self._known.topics, **metadata.topics}
            for name in metadata.errors:
                metadata.topics.pop(name, None)
        self._known = metadata
        return metadata

    async def leaders(self, partitions: Collection[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """The partitions by the node that leads them; raises when one does not exist or has no leader."""
        wanted = {partition.topic for partition in partitions}
        known = self._known
        if known is None or any(_leader(known, partition) is None for partition in partitions):
            known = await self.metadata(wanted)
        by_node: dict[int, list[TopicPartition]] = {}
        for partition in partitions:
            found = known.topic(partition.topic).partition(partition.partition)
            if found is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {partition}")
            if found.leader_id < 0:
                raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader")
            by_node.setdefault(found.leader_id, []).append(partition)
        return by_node

    async def topic_id(self, name: str) -> Uuid:
        known = self._known
        if known is None or name not in known.topics:
            known = await self.metadata([name])
        return known.topic(name).topic_id

    # -- retries

    async def retrying(self, attempt: Callable[[], Awaitable[T]], *, final: Collection[ErrorCode] = ()) -> T:
        """Call ``attempt`` until it succeeds, fails for good (as codes in ``final`` do), or time is up."""
        deadline = self._clock.monotonic_ms() + self._api_timeout_ms
        backoff_ms = self._retry_backoff_ms
        while True:
            try:
                return await attempt()
            except KafkaError as error:
                never_reached = self._known is None and isinstance(error, BrokerUnreachable)
                out_of_time = self._clock.monotonic_ms() + backoff_ms >= deadline
                if not error.code.retriable or error.code in final or never_reached or out_of_time:
                    raise
                if error.code.refreshes_metadata or error.code == ErrorCode.NOT_CONTROLLER:
                    self._known_is_stale()
            await asyncio.sleep(backoff_ms * random.uniform(0.8, 1.2) / 1000)
            backoff_ms = min(backoff_ms * 2, _BACKOFF_MAX_MS)

    async def each_leader(
        self,
        partitions: Sequence[TopicPartition],
        ask: Callable[[int, list[TopicPartition]], Awaitable[Mapping[TopicPartition, T | KafkaError]]],
    ) -> dict[TopicPartition, T]:
        """Ask every leader about its partitions, all at once; partitions that failed for now are asked again.

        Raises the first error that will not pass.
        """
        answers: dict[TopicPartition, T] = {}

        async def attempt() -> None:
            missing = [partition for partition in partitions if partition not in answers]
            by_node = await self.leaders(missing)
            failure: KafkaError | None = None
            for part in await asyncio.gather(*(ask(node, owned) for node, owned in by_node.items())):
                for partition, answer in part.items():
                    if not isinstance(answer, KafkaError):
                        answers[partition] = answer
                    elif failure is None or not answer.code.retriable:
                        failure = answer
            if failure is not None:
                raise failure
            silent = [str(partition) for partition in missing if partition not in answers]
            if silent:
                raise ConnectionLost(f"the answer says nothing about {', '.join(silent)}")

        # What Metadata does not know does not exist; only a leader's own answer may be behind the times.
        await self.retrying(attempt, final=(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,))
        return {partition: answers[partition] for partition in partitions}

    def _known_is_stale(self) -> None:
        if self._known is not None:
            self._known.topics.clear()
            self._known.controller_id = -1


def _leader(known: ClusterMetadata, partition: TopicPartition) -> int | None:
    topic = known.topics.get(partition.topic)
    found = None if topic is None else topic.partition(partition.partition)
    return None if found is None or found.leader_id < 0 else found.leader_id
