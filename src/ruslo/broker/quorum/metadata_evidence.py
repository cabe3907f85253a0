"""Detects that the metadata log is not the one that this node had when it stopped.

A node with an empty metadata log starts as the first node of a new cluster: none of its partitions is in the
metadata, so every log would be set aside. That is right after ``ruslo storage format`` and wrong after a disk
lost the metadata log. The evidence:

| evidence                                                    | it proves that                              |
|-------------------------------------------------------------|---------------------------------------------|
| partitions in ``log.dirs``, or a clean-shutdown file        | the node has been in a cluster before       |
| the broker epoch in that file, an offset of the metadata    | the metadata log extended past that offset  |

With other voters an empty metadata log is not a loss: this node fetches it from them, as Kafka's does.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ruslo.model.errors import StorageError
from ruslo.model.topics import METADATA_TOPIC
from ruslo.storage.clean_shutdown import CLEAN_SHUTDOWN, UNKNOWN_BROKER_EPOCH
from ruslo.storage.partition_files import parse_directory_name

if TYPE_CHECKING:
    from ruslo.storage.log_manager import LogManager

logger = logging.getLogger(__name__)


class MetadataLost(StorageError):
    """The metadata is older than what this node has already seen."""


@dataclass(frozen=True, slots=True)
class MetadataEvidence:
    partition_path: str | None
    """One of the partitions in the log directories."""
    was_clean: bool
    """A log directory has a clean-shutdown file."""
    broker_epoch: int
    """The broker epoch in that file, or -1."""

    @classmethod
    def of(cls, logs: LogManager) -> MetadataEvidence:
        online = logs.online_directories()
        partitions = (
            f"{each.path}/{name}"
            for each in online
            for name in each.disk.list_directories(each.path)
            if (found := parse_directory_name(name)) is not None and found.topic != METADATA_TOPIC
        )
        return cls(
            next(partitions, None),
            any(each.was_clean for each in online),
            max((each.previous_broker_epoch for each in online), default=UNKNOWN_BROKER_EPOCH),
        )

    def check_log(self, directory: str, end_offset: int, other_voters: Collection[int] | None) -> None:
        """Raise MetadataLost if the metadata log is too short and no other voter has it.

        ``end_offset``: the end of the log or of its newest snapshot. ``other_voters``: None if the voters are
        unknown and no other node could know them.
        """
        problem = self._problem(directory, end_offset)
        if problem is None:
            return
        if other_voters is None or not other_voters:
            raise MetadataLost(
                f"{problem}, and no other controller has a copy. Starting would create an empty cluster and "
                f"set every topic aside. Restore {directory} from a backup. To create a new cluster instead, "
                "move the content of all log directories away and run 'ruslo storage format'"
            )
        logger.warning("%s: fetching it from the other voters %s", problem, sorted(other_voters))

    def _problem(self, directory: str, end_offset: int) -> str | None:
        if end_offset == 0 and self.partition_path is not None:
            return (
                f"The metadata log in {directory} is empty, but there are partitions: {self.partition_path}"
            )
        if end_offset == 0 and self.was_clean:
            return f"The metadata log in {directory} is empty, but this node was shut down cleanly before"
        if self.broker_epoch >= end_offset > 0:
            return (
                f"The metadata log in {directory} ends at offset {end_offset}, but this node has seen offset "
                f"{self.broker_epoch} before it stopped"
            )
        return None

    def check_epoch(self, broker_epoch: int) -> None:
        """Raise MetadataLost if this broker is registered at an offset that it has seen before."""
        if UNKNOWN_BROKER_EPOCH < broker_epoch <= self.broker_epoch:
            raise MetadataLost(
                f"The cluster registered this broker at metadata offset {broker_epoch}, but before its last "
                f"stop it was registered at offset {self.broker_epoch}: the controllers have lost metadata. "
                "Starting would set aside every topic that they do not know. Restore the metadata logs of "
                f"the controllers. To keep the current metadata instead, remove {CLEAN_SHUTDOWN} from every "
                "log directory of this broker and start again"
            )
