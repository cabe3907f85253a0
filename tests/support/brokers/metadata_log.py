"""A raft driver on a temporary directory with a listener that records every call."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from ruslo.broker.quorum.raft import RaftDriver
from ruslo.broker.scheduling.scheduler import Scheduler
from ruslo.config.broker import BrokerConfig
from ruslo.machines.raft.voters import Endpoint
from ruslo.model.clock import SystemClock
from ruslo.model.ids import Uuid
from ruslo.protocol.message import Message
from ruslo.protocol.messages.remove_topic_record import RemoveTopicRecord
from ruslo.protocol.messages.topic_record import TopicRecord
from ruslo.storage.disk import Disk
from ruslo.storage.local_disk import LocalDisk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ruslo.broker.quorum.log_listener import MetadataLogListener
    from ruslo.model.clock import Clock

DIRECTORY_ID = bytes(range(16))
ENDPOINT = Endpoint("CONTROLLER", "localhost", 9093)


def broker_config(directory: Path, overrides: Mapping[str, str] | None = None) -> BrokerConfig:
    """A node with both roles that is the only, static voter."""
    return BrokerConfig.from_properties(
        {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": "1@localhost:9093",
            "log.dirs": str(directory),
        }
        | dict(overrides or {})
    )


def topic_id(name: str) -> Uuid:
    return hashlib.sha256(name.encode()).digest()[:16]


def topic(name: str) -> tuple[Message, int]:
    return TopicRecord(name=name, topic_id=topic_id(name)), 0


def remove_topic(name: str) -> tuple[Message, int]:
    return RemoveTopicRecord(topic_id=topic_id(name)), 0


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110  the driver has no event for everything a test may wait for
            await asyncio.sleep(0)


class TopicsListener:
    """A minimal metadata image: the names of topics."""

    def __init__(self) -> None:
        self.topics: dict[Uuid, str] = {}
        self.calls: list[str] = []
        """A line for every call."""

    @property
    def names(self) -> list[str]:
        return list(self.topics.values())

    def handle_snapshot(self, offset: int, epoch: int, records: Sequence[Message]) -> Iterator[None]:
        yield
        self.topics.clear()
        self.calls.append(f"snapshot {offset}-{epoch}: {self._apply(records)}")

    def handle_commit(self, base_offset: int, epoch: int, records: Sequence[Message]) -> None:
        self.calls.append(f"commit {base_offset}@{epoch}: {self._apply(records)}")

    def handle_leader_change(self, leader_id: int, epoch: int) -> None:
        self.calls.append(f"leader {leader_id}@{epoch}")

    def to_records(self) -> Iterator[tuple[Message, int]]:
        for name in self.topics.values():
            yield topic(name)

    def _apply(self, records: Iterable[Message]) -> str:
        seen = []
        for record in records:
            match record:
                case TopicRecord():
                    self.topics[record.topic_id] = record.name
                    seen.append(record.name)
                case RemoveTopicRecord():
                    seen.append(f"-{self.topics.pop(record.topic_id)}")
                case _:
                    seen.append(type(record).__name__)
        return " ".join(seen)


class MetadataNode:
    """A driver and its listener. ``failures`` holds what the driver reported to ``on_failure``."""

    def __init__(
        self,
        directory: Path,
        overrides: Mapping[str, str] | None = None,
        *,
        disk: Disk | None = None,
        clock: Clock | None = None,
        directory_id: Uuid = DIRECTORY_ID,
        take_snapshots: bool = False,
    ) -> None:
        self.listener = TopicsListener()
        self.failures: list[BaseException] = []
        self.driver = RaftDriver(
            config=broker_config(directory, overrides),
            disk=disk or LocalDisk(str(directory)),
            clock=clock or SystemClock(),
            scheduler=Scheduler(clock or SystemClock()),
            random=Random(1),
            directory_id=directory_id,
            endpoints=(ENDPOINT,),
            on_failure=self.failures.append,
        )
        self.extra_listeners: list[MetadataLogListener] = []
        self._take_snapshots = take_snapshots

    async def start(self) -> None:
        source = self.listener.to_records if self._take_snapshots else None
        await self.driver.start([self.listener, *self.extra_listeners], source)

    def append(self, *records: tuple[Message, int]) -> int:
        return self.driver.append(self.driver.epoch, records)

    async def committed(self, offset: int) -> None:
        """Wait until the record at ``offset`` is committed and delivered."""
        await until(lambda: self.driver.applied.offset > offset)

    async def create(self, *names: str) -> int:
        """Append the topics as one batch and wait for the commit."""
        offset = self.append(*map(topic, names))
        await self.committed(offset)
        return offset


@asynccontextmanager
async def running(node: MetadataNode) -> AsyncIterator[MetadataNode]:
    await node.start()
    try:
        yield node
    finally:
        await node.driver.stop()
