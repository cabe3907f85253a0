"""A client's connections to a cluster: discovers brokers and routes requests to leader or controller."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Self, TypeVar

from ruslo.client.errors import ClientUnusable
from ruslo.client.settings.bootstrap_servers import Address, parse_bootstrap
from ruslo.client.wire.metadata import ClusterMetadata
from ruslo.model.clock import SystemClock
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import Uuid
from ruslo.model.topics import TopicPartition
from ruslo.net.channel import Channel, ChannelSettings
from ruslo.net.errors import BrokerUnreachable, ConnectionLost
from ruslo.protocol.message import Message
from ruslo.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from ruslo.protocol.messages.metadata_response import MetadataResponse

R = TypeVar("R", bound=Message)
T = TypeVar("T")

_BACKOFF_MAX_MS = 1000


class Cluster:
    """``async with Cluster("host:9092,other:9092") as cluster``: connections are opened on first use.

    Retriable errors are retried with exponential backoff for ``api_timeout_ms``. A cluster that was never
    reached fails at once.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        settings: ChannelSettings | None = None,
        api_timeout_ms: int = 60_000,
        retry_backoff_ms: int = 50,
    ) -> None:
        self._bootstrap = parse_bootstrap(bootstrap_servers)
        self._settings = settings or ChannelSettings()
        self._api_timeout_ms = api_timeout_ms
        self._retry_backoff_ms = retry_backoff_ms
        self._connections: dict[Address, Channel] = {}
        self._opening: dict[Address, asyncio.Lock] = {}
        self._known: ClusterMetadata | None = None
        self._clock = SystemClock()
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections. Requests in progress fail, and no connection is opened again."""
        self._closed = True
        connections, self._connections = list(self._connections.values()), {}
        for connection in connections:
            await connection.close()

    # -- request routing

    async def any_broker(self, message: Message, response_type: type[R], *, min_version: int = 0) -> R:
        connection = await self.any_connection()
        return await connection.request(message, response_type, min_version=min_version)

    async def controller(self, message: Message, response_type: type[R], *, min_version: int = 0) -> R:
        """Send to the node that Metadata names as controller; brokers forward to the active controller."""
        known = self._known
        if known is None or known.controller_id not in known.nodes:
            known = await self.metadata([])
        if known.controller_id not in known.nodes:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "the cluster has no active controller")
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

    async def connection(self, node_id: int) -> Channel:
        known = self._known or await self.metadata([])
        if node_id not in known.nodes:
            known = await self.metadata([])
        node = known.nodes.get(node_id)
        if node is None:
            present = ", ".join(str(other) for other in sorted(known.nodes)) or "none"
            raise KafkaError(
                ErrorCode.BROKER_NOT_AVAILABLE,
                f"broker {node_id} does not exist; brokers of the cluster: {present}",
            )
        return await self._open(Address(node.host, node.port))

    async def any_connection(self) -> Channel:
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
        # A server that responds in the wrong way is a better explanation than one that does not respond.
        raise refusal or BrokerUnreachable.from_problems(problems)

    async def _open(self, address: Address) -> Channel:
        # Concurrent callers share one connection per address.
        async with self._opening.setdefault(address, asyncio.Lock()):
            self._check_open()
            connection = self._connections.get(address)
            if connection is None or connection.closed:
                connection = await Channel.open(*address, self._settings)
                self._connections[address] = connection
                try:
                    self._check_open()
                except ClientUnusable:
                    await connection.close()
                    raise
            return connection

    def _check_open(self) -> None:
        if self._closed:
            raise ClientUnusable("the client was closed")

    # -- metadata

    async def metadata(
        self, topics: Iterable[str] | None = None, *, allow_auto_topic_creation: bool = False
    ) -> ClusterMetadata:
        """Request current metadata, of all topics by default."""
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
        """Partitions by leader; raises if a partition does not exist or has no leader."""
        wanted = {partition.topic for partition in partitions}
        known = self._known
        if known is None or any(_leader(known, partition) is None for partition in partitions):
            known = await self.metadata(wanted)
        by_node: dict[int, list[TopicPartition]] = {}
        for partition in partitions:
            found = known.topic(partition.topic).partition(partition.partition)
            if found is None:
                raise KafkaError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"partition {partition} does not exist"
                )
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
        """Call ``attempt`` until it succeeds, the timeout expires, or it fails with an error that is not
        retriable or in ``final``."""
        deadline = self._clock.monotonic_ms() + self._api_timeout_ms
        backoff_ms = self._retry_backoff_ms
        while True:
            try:
                return await attempt()
            except KafkaError as error:
                never_reached = self._known is None and isinstance(error, BrokerUnreachable)
                expired = self._clock.monotonic_ms() + backoff_ms >= deadline
                if not error.code.retriable or error.code in final or never_reached or expired:
                    raise
                is_stale = error.code.refreshes_metadata or error.code == ErrorCode.NOT_CONTROLLER
                if is_stale and self._known is not None:
                    self._known.topics.clear()
                    self._known.controller_id = -1
            await asyncio.sleep(backoff_ms * random.uniform(0.8, 1.2) / 1000)
            backoff_ms = min(backoff_ms * 2, _BACKOFF_MAX_MS)

    async def each_broker(self, query: Callable[[int], Awaitable[Iterable[T]]]) -> list[T]:
        """The results of all brokers, queried concurrently."""

        async def attempt() -> list[T]:
            nodes = (await self.metadata([])).nodes
            found = await asyncio.gather(*(query(node_id) for node_id in nodes))
            return [each for listed in found for each in listed]

        return await self.retrying(attempt)

    async def each_leader(
        self,
        partitions: Sequence[TopicPartition],
        query: Callable[[int, list[TopicPartition]], Awaitable[Mapping[TopicPartition, T | KafkaError]]],
    ) -> dict[TopicPartition, T]:
        """Query all leaders concurrently, each for its partitions; retry partitions with retriable errors.

        Raises the first error that is not retriable.
        """
        results: dict[TopicPartition, T] = {}

        async def attempt() -> None:
            pending = [partition for partition in partitions if partition not in results]
            by_node = await self.leaders(pending)
            failure: KafkaError | None = None
            for part in await asyncio.gather(*(query(node, owned) for node, owned in by_node.items())):
                for partition, result in part.items():
                    if not isinstance(result, KafkaError):
                        results[partition] = result
                    elif failure is None or not result.code.retriable:
                        failure = result
            if failure is not None:
                raise failure
            missing = [str(partition) for partition in pending if partition not in results]
            if missing:
                raise ConnectionLost(f"the response does not include {', '.join(missing)}")

        # Partitions that Metadata does not list do not exist: a retry would not help.
        await self.retrying(attempt, final=(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,))
        return {partition: results[partition] for partition in partitions}


def _leader(known: ClusterMetadata, partition: TopicPartition) -> int | None:
    topic = known.topics.get(partition.topic)
    found = None if topic is None else topic.partition(partition.partition)
    return None if found is None or found.leader_id < 0 else found.leader_id
