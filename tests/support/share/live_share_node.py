"""A whole node in the test's event loop, with a topic and the state of a share group."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from ruslo.broker.share_partitions.manager import SharePartitionManager
from ruslo.model.errors import ErrorCode
from ruslo.model.ids import Uuid
from tests.support.brokers.live_node import LiveNode, batch_of, live_node
from tests.support.clients.raw_client import RawClient, connected
from tests.support.share.share_client import SMALL, ShareMember, initialize, member_on


class ShareNode:
    def __init__(self, node: LiveNode, writer: RawClient, topic: Uuid) -> None:
        self.node = node
        self.writer = writer
        self.topic = topic

    @property
    def shares(self) -> SharePartitionManager:
        return self.node.node.broker.share_partitions

    def member(self, member: str = "AAAAAAAAAAAAAAAAAAAAAA", group: str = "g") -> Member:
        return member_on(self.node.bootstrap, self.topic, group, member)

    async def produce(self, *values: bytes, index: int = 0) -> None:
        result = await self.node.produce(self.writer, batch_of(*values), index=index)
        assert result.error_code == ErrorCode.NONE


Member = contextlib.AbstractAsyncContextManager[ShareMember]


@contextlib.asynccontextmanager
async def share_node(
    directory: Path,
    partitions: int = 1,
    *,
    start_offset: int = 0,
    properties: Mapping[str, str] | None = None,
    **settings: str,
) -> AsyncIterator[ShareNode]:
    """A node with a topic and the initialized state of group g."""
    async with (
        live_node(directory, SMALL | dict(properties or {})) as node,
        connected(node.bootstrap) as writer,
    ):
        topic = await node.create("t", partitions, **settings)
        await initialize(writer, topic, partitions=partitions, start_offset=start_offset)
        yield ShareNode(node, writer, topic)
