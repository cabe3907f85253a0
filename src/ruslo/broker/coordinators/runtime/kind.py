"""A kind of coordinator: what distinguishes groups, transactions and later kinds from each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from ruslo.broker.coordinators.runtime.pending_request import ErrorResponse
from ruslo.broker.coordinators.runtime.record_codec import EncodedRecord
from ruslo.machines.machine import Machine
from ruslo.model.errors import KafkaError
from ruslo.protocol.message import Message
from ruslo.records.batch import NO_SEQUENCE, BatchHeader

if TYPE_CHECKING:
    from ruslo.broker.coordinators.runtime.shard import CoordinatorShard

MachineT = TypeVar("MachineT", bound=Machine[Any, Any, Message | KafkaError, Any])

ADAPTIVE_LINGER_MS = -1
"""Collect the records of one event-loop iteration into a batch; no write waits for later events."""
NO_LINGER_MS = 0
"""Write a batch for each event."""


class RecordCodec(Protocol):
    def encode(self, record: Any) -> EncodedRecord: ...

    def decode(self, header: BatchHeader, batch: memoryview) -> Iterator[tuple[int, Any]]:
        """The offsets and records of a batch of the log, control batches included."""
        ...

    def producer_of(self, record: Any) -> tuple[int, int] | None:
        """The id and epoch of the producer whose transactional batch contains the record."""
        ...


@dataclass(frozen=True, slots=True)
class CoordinatorKind(Generic[MachineT]):
    topic: str
    content: str
    """What a shard contains, for log lines: ``groups``."""
    partition_count: int
    """The number of partitions that the topic will have, while it does not exist."""
    codec: RecordCodec
    error_response: ErrorResponse
    new_machine: Callable[[], MachineT]
    execute: Callable[[CoordinatorShard[MachineT], Any], None]
    """Executes an effect of a shard's machine; its result is another event for the shard."""
    commit_timeout_ms: int
    load_buffer_bytes: int
    linger_ms: int = NO_LINGER_MS
    compression: int = 0
    base_sequence: int = NO_SEQUENCE
    replays_when_committed: bool = False
    """False: records are replayed when they are appended, so a failed append makes the shard load again."""
    reloads_in_new_epoch: bool = False
    """Whether a new leader epoch of the partition, on the same node, is a new coordinator."""
