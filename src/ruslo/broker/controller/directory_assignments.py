"""Tells the controller in which log directory each replica of this broker lies, or lay (KIP-858)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ruslo.broker.controller.broker_lifecycle import ControllerChannel
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

_RETRY_MS = 1_000
_MAX_REPLICAS = 2_000
"""In one request: a change of the metadata must stay small enough for one batch."""


class DirectoryAssignments:
    def __init__(
        self,
        controller: ControllerChannel,
        *,
        broker_id: int,
        broker_epoch: Callable[[], int],
        report_lost: Callable[[], None],
    ) -> None:
        """``report_lost``: have the heartbeats name the directories that have failed."""
        self._controller = controller
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._report_lost = report_lost
        self._untold: dict[tuple[Uuid, int], Uuid] = {}
        """(topic id, partition) → directory id, to be told."""
        self._task: asyncio.Task[None] | None = None

    def assign(self, topic_id: Uuid, index: int, directory_id: Uuid) -> None:
        """Soon, together with whatever else is to be told by then."""
        self._untold[topic_id, index] = directory_id
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def lost_replicas_reported(self) -> None:
        """Return when the controller knows every replica that has lost its data."""
        while LOST_DIR in self._untold.values() and self._task is not None:
            await asyncio.wait([self._task], timeout=_RETRY_MS / 1000)

    def directory_lost(self, directory_id: Uuid) -> None:
        """It has failed: the controller moves what it knows to lie there, and is told what else did."""
        for (topic_id, index), untold in list(self._untold.items()):
            if untold == directory_id:
                self.assign(topic_id, index, LOST_DIR)
        self._report_lost()

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        try:
            while self._untold:
                round_ = dict(list(self._untold.items())[:_MAX_REPLICAS])
                try:
                    await self._send(round_)
                except KafkaError as error:
                    logger.warning(
                        "the controller was not told of %d log directories: %s", len(round_), error
                    )
                    await asyncio.sleep(_RETRY_MS / 1000)
                    continue
                for place, directory_id in round_.items():
                    # It may have moved once more in the meantime.
                    if self._untold.get(place) == directory_id:
                        del self._untold[place]
        finally:
            self._task = None

    async def _send(self, round_: dict[tuple[Uuid, int], Uuid]) -> None:
        grouped: dict[Uuid, dict[Uuid, list[int]]] = {}
        for (topic_id, index), directory_id in round_.items():
            grouped.setdefault(directory_id, {}).setdefault(topic_id, []).append(index)
        request = AssignReplicasToDirsRequest(
            broker_id=self._broker_id,
            broker_epoch=self._broker_epoch(),
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
        refused = [
            ErrorCode(partition.error_code).name
            for directory in response.directories
            for topic in directory.topics
            for partition in topic.partitions
            # A topic that was deleted meanwhile needs no directory.
            if partition.error_code not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID)
        ]
        if refused:
            logger.error(
                "the controller refused log directories of replicas: %s", ", ".join(sorted(set(refused)))
            )
