"""Reports the log directory of each replica on this broker to the controller (KIP-858)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass

from ruslo.broker.controller.controller_channel import ControllerChannel
from ruslo.broker.scheduling.background_tasks import cancel_all
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import LOST_DIR, Uuid
from ruslo.protocol.messages.assign_replicas_to_dirs_request import (
    AssignReplicasToDirsRequest,
    DirectoryData,
    PartitionData,
    TopicData,
)
from ruslo.protocol.messages.assign_replicas_to_dirs_response import AssignReplicasToDirsResponse

logger = logging.getLogger(__name__)

_RETRY_BACKOFF_MS = 1_000
_MAX_REPLICAS_PER_REQUEST = 2_000
"""A change of the metadata must fit into one batch."""


@dataclass(eq=False)
class DirectoryAssignments:
    _controller: ControllerChannel
    _: KW_ONLY
    broker_id: int
    broker_epoch: Callable[[], int]
    report_failed_directory: Callable[[], None]
    """Sends a heartbeat with the failed directories."""

    def __post_init__(self) -> None:
        self._unreported: dict[tuple[Uuid, int], Uuid] = {}
        """By topic id and partition: the directory id to report."""
        self._confirmations: dict[tuple[Uuid, int], tuple[Uuid, asyncio.Future[bool]]] = {}
        self._task: asyncio.Task[None] | None = None

    def assign(self, topic_id: Uuid, index: int, directory_id: Uuid) -> None:
        """Report soon, together with other assignments."""
        confirmation = self._confirmations.get((topic_id, index))
        if confirmation is not None and confirmation[0] != directory_id:
            self._confirm((topic_id, index), confirmation[0], is_accepted=False)
        self._unreported[topic_id, index] = directory_id
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def confirm(self, topic_id: Uuid, index: int, directory_id: Uuid) -> asyncio.Future[bool]:
        """As ``assign``; the result is whether the controller has accepted the directory.

        It is False, too, if another directory is reported meanwhile.
        """
        self.assign(topic_id, index, directory_id)
        known = self._confirmations.get((topic_id, index))
        if known is None or known[1].done():
            known = directory_id, asyncio.get_running_loop().create_future()
            self._confirmations[topic_id, index] = known
        return known[1]

    def _confirm(self, tp: tuple[Uuid, int], directory_id: Uuid, *, is_accepted: bool) -> None:
        confirmation = self._confirmations.get(tp)
        if confirmation is not None and confirmation[0] == directory_id:
            del self._confirmations[tp]
            if not confirmation[1].done():
                confirmation[1].set_result(is_accepted)

    async def lost_replicas_reported(self) -> None:
        """Return when the controller has acknowledged every replica that has lost its data."""
        while LOST_DIR in self._unreported.values() and self._task is not None:
            await asyncio.wait([self._task], timeout=_RETRY_BACKOFF_MS / 1000)

    def on_directory_failure(self, directory_id: Uuid) -> None:
        """The controller moves the replicas that it knows to be there; the unreported ones are reported as
        LOST."""
        for (topic_id, index), unreported in list(self._unreported.items()):
            if unreported == directory_id:
                self.assign(topic_id, index, LOST_DIR)
        self.report_failed_directory()

    async def stop(self) -> None:
        await cancel_all(self._task)

    async def _run(self) -> None:
        try:
            while self._unreported:
                batch = dict(list(self._unreported.items())[:_MAX_REPLICAS_PER_REQUEST])
                try:
                    rejected = await self._send(batch)
                except KafkaError as error:
                    logger.warning("AssignReplicasToDirs of %d replicas failed: %s", len(batch), error)
                    await asyncio.sleep(_RETRY_BACKOFF_MS / 1000)
                    continue
                for tp, directory_id in batch.items():
                    # The replica may have moved again meanwhile.
                    if self._unreported.get(tp) == directory_id:
                        del self._unreported[tp]
                        self._confirm(tp, directory_id, is_accepted=tp not in rejected)
        finally:
            self._task = None

    async def _send(self, batch: dict[tuple[Uuid, int], Uuid]) -> set[tuple[Uuid, int]]:
        """Returns the replicas whose directory the controller did not accept."""
        grouped: dict[Uuid, dict[Uuid, list[int]]] = {}
        for (topic_id, index), directory_id in batch.items():
            grouped.setdefault(directory_id, {}).setdefault(topic_id, []).append(index)
        request = AssignReplicasToDirsRequest(
            broker_id=self.broker_id,
            broker_epoch=self.broker_epoch(),
            directories=[
                DirectoryData(
                    id=directory_id,
                    topics=[
                        TopicData(
                            topic_id=topic_id,
                            partitions=[PartitionData(partition_index=index) for index in indexes],
                        )
                        for topic_id, indexes in topics.items()
                    ],
                )
                for directory_id, topics in grouped.items()
            ],
        )
        response = await self._controller.submit(request)
        assert isinstance(response, AssignReplicasToDirsResponse)
        rejected = {
            (topic.topic_id, partition.partition_index): ErrorCode(partition.error_code)
            for directory in response.directories
            for topic in directory.topics
            for partition in topic.partitions
            if partition.error_code
        }
        # A topic that was deleted meanwhile needs no directory.
        errors = {code.name for code in rejected.values() if code is not ErrorCode.UNKNOWN_TOPIC_ID}
        if errors:
            logger.error("the controller rejected log directories of replicas: %s", ", ".join(sorted(errors)))
        return set(rejected)
