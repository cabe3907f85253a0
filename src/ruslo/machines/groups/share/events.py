"""What share groups request from the share coordinator, and its results as events."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ruslo.machines.assignors.spec import Partitions
from ruslo.model.errors import ErrorCode
from ruslo.model.ids import Uuid

PartitionCodes: TypeAlias = Mapping[Uuid, Mapping[int, ErrorCode]]
"""The results by topic id and partition."""

UNINITIALIZED_START_OFFSET = -1
"""The leader of the partition chooses the start offset by ``share.auto.offset.reset``."""


@dataclass(frozen=True, slots=True)
class InitializeShareState:
    """A query: initialize the states of share-partitions (InitializeShareGroupState)."""

    group_id: str
    state_epoch: int
    start_offsets: Mapping[Uuid, Mapping[int, int]]
    """The start offsets by topic id and partition."""
    token: Hashable = None
    """The request that waits for the result; None: no request does."""


@dataclass(frozen=True, slots=True)
class ShareStateInitialized:
    """The result of ``InitializeShareState``."""

    group_id: str
    codes: PartitionCodes
    token: Hashable = None


@dataclass(frozen=True, slots=True)
class DeleteShareState:
    """A query: delete the states of share-partitions (DeleteShareGroupState)."""

    group_id: str
    partitions: Partitions
    token: Hashable


@dataclass(frozen=True, slots=True)
class ShareStateDeleted:
    """The result of ``DeleteShareState``."""

    group_id: str
    codes: PartitionCodes
    token: Hashable


ShareQuery: TypeAlias = InitializeShareState | DeleteShareState
ShareResult: TypeAlias = ShareStateInitialized | ShareStateDeleted
