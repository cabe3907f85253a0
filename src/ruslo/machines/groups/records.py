"""The records of ``__consumer_offsets``: a key, and a value or a tombstone.

| type  | contains                                    | value version written              |
|-------|---------------------------------------------|------------------------------------|
| 0     | an offset, in the oldest format             | never written                      |
| 1     | an offset                                   | 4; 1 with an expire timestamp      |
| 2     | a classic group                             | 3                                  |
| 3-8   | a consumer group (KIP-848) and its members  | 0                                  |
| 10-15 | a share group (KIP-932) and its members     | 0                                  |
| 16    | a resolved regular expression               | 0                                  |
| 17-23 | a streams group (KIP-1071) and its members  | 0                                  |

The versions are those of Apache Kafka 4.3, so either system reads the log of the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ruslo.model.ids import ZERO_UUID, Uuid
from ruslo.protocol.message import Message
from ruslo.protocol.messages.group_metadata_key import GroupMetadataKey
from ruslo.protocol.messages.group_metadata_value import GroupMetadataValue, MemberMetadata
from ruslo.protocol.messages.offset_commit_key import OffsetCommitKey
from ruslo.protocol.messages.offset_commit_value import OffsetCommitValue

LEGACY_OFFSET = 0
OFFSET = 1
CLASSIC_GROUP = 2
CONSUMER_GROUP_TYPES = frozenset({3, 4, 5, 6, 7, 8, 16})
STREAMS_GROUP_TYPES = frozenset({17, 19, 20, 21, 22, 23})
SHARE_GROUP_TYPES = frozenset({10, 11, 12, 13, 14, 15})

OFFSET_VERSION = 4
OFFSET_WITH_EXPIRY_VERSION = 1
"""The only version with an expire timestamp, which requests below version 5 may set."""
CLASSIC_GROUP_VERSION = 3
CONSUMER_RECORD_VERSION = 0

NO_TIMESTAMP = -1


class Producer(NamedTuple):
    """The transactional producer of a batch."""

    id: int
    epoch: int


class GroupRecord(NamedTuple):
    key: Message
    value: Message | None
    """None: a tombstone."""
    version: int = CONSUMER_RECORD_VERSION
    """The version of the value; it has no meaning for a tombstone."""
    producer: Producer | None = None
    """The producer whose transaction the record belongs to; None: the record is not transactional."""


class EndTxnMarker(NamedTuple):
    """A control record of ``__consumer_offsets`` that ends a producer's transaction."""

    producer_id: int
    committed: bool


def consumer_record(key: Message, value: Message) -> GroupRecord:
    """A record of one of the types from 3 on."""
    return GroupRecord(key, value, CONSUMER_RECORD_VERSION)


def tombstone(key: Message) -> GroupRecord:
    return GroupRecord(key, None)


def offset_record(
    group_id: str,
    topic: str,
    partition: int,
    *,
    offset: int,
    leader_epoch: int,
    metadata: str,
    commit_ms: int,
    expire_ms: int = NO_TIMESTAMP,
    topic_id: Uuid = ZERO_UUID,
) -> GroupRecord:
    value = OffsetCommitValue(
        offset=offset,
        leader_epoch=leader_epoch,
        metadata=metadata,
        commit_timestamp=commit_ms,
        expire_timestamp=expire_ms,
        topic_id=topic_id,
    )
    version = OFFSET_VERSION if expire_ms == NO_TIMESTAMP else OFFSET_WITH_EXPIRY_VERSION
    return GroupRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition), value, version)


def offset_tombstone(group_id: str, topic: str, partition: int) -> GroupRecord:
    return GroupRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)


def classic_group_record(
    group_id: str,
    *,
    protocol_type: str,
    generation: int,
    protocol: str | None,
    leader: str | None,
    state_ms: int,
    members: Iterable[MemberMetadata] = (),
) -> GroupRecord:
    value = GroupMetadataValue(
        protocol_type=protocol_type,
        generation=generation,
        protocol=protocol,
        leader=leader,
        current_state_timestamp=state_ms,
        members=list(members),
    )
    return GroupRecord(GroupMetadataKey(group=group_id), value, CLASSIC_GROUP_VERSION)


def classic_group_tombstone(group_id: str) -> GroupRecord:
    return GroupRecord(GroupMetadataKey(group=group_id), None)
