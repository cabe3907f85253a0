"""The requests of simulated clients whose codecs are not generated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ruslo.model.errors import ErrorCode
from ruslo.model.topics import TopicPartition
from ruslo.storage.txn_index import AbortedTransaction
from ruslo.testing.histories import Isolation


@dataclass(frozen=True, slots=True)
class ProduceBatch:
    """Produce with acks=all, for one partition."""

    transactional_id: str
    place: TopicPartition
    batch: bytes
    version: int


class Produced(NamedTuple):
    code: ErrorCode
    base_offset: int = -1


@dataclass(frozen=True, slots=True)
class FetchBytes:
    place: TopicPartition
    offset: int
    isolation: Isolation
    max_bytes: int


class Fetched(NamedTuple):
    code: ErrorCode
    data: bytes = b""
    aborted: tuple[AbortedTransaction, ...] = ()
    """The aborted transactions within the data, for read_committed."""


@dataclass(frozen=True, slots=True)
class FetchEnd:
    """ListOffsets, latest."""

    place: TopicPartition
    isolation: Isolation


class FetchedEnd(NamedTuple):
    code: ErrorCode
    offset: int = -1
