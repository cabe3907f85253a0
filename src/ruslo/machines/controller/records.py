"""The version of each metadata record to write, by the finalized metadata.version.

Nodes of an older release must understand every record, so the version follows the finalized level, not the
newest codec.
"""

from __future__ import annotations

from typing import TypeAlias

from ruslo.protocol.message import Message

MetadataRecord: TypeAlias = Message
VersionedRecord: TypeAlias = tuple[MetadataRecord, int]

MINIMUM_METADATA_VERSION = 7
"""3.3-IV3, the first level that KRaft clusters could run in production."""
LATEST_METADATA_VERSION = 30
"""4.3-IV0."""
UNSTABLE_METADATA_VERSION = 31
"""4.4-IV0, with the records of 4.3-IV0: for clusters with ``unstable.feature.versions.enable``."""

FENCED_REPLICAS_LEAVE_ISR_QUIETLY = 12
"""Since 3.6-IV0 a shrinking ISR no longer bumps the leader epoch."""
SCRAM_SUPPORTED = 11
TRANSACTIONS_SUPPORTED = 13
DELEGATION_TOKENS_SUPPORTED = 14
CONTROLLER_REGISTRATION_SUPPORTED = 15
DIRECTORY_ASSIGNMENT_SUPPORTED = 17
ELR_SUPPORTED = 23
CORDONED_LOG_DIRS_SUPPORTED = 30

METADATA_VERSION_NAMES = {
    7: "3.3-IV3",
    8: "3.4-IV0",
    9: "3.5-IV0",
    10: "3.5-IV1",
    11: "3.5-IV2",
    12: "3.6-IV0",
    13: "3.6-IV1",
    14: "3.6-IV2",
    15: "3.7-IV0",
    16: "3.7-IV1",
    17: "3.7-IV2",
    18: "3.7-IV3",
    19: "3.7-IV4",
    20: "3.8-IV0",
    21: "3.9-IV0",
    22: "4.0-IV0",
    23: "4.0-IV1",
    24: "4.0-IV2",
    25: "4.0-IV3",
    26: "4.1-IV0",
    27: "4.1-IV1",
    28: "4.2-IV0",
    29: "4.2-IV1",
    30: "4.3-IV0",
    31: "4.4-IV0",
}

METADATA_VERSIONS_WITH_NEW_RECORDS = (7, 8, 11, 13, 14, 15, 17, 23, 30)
"""Levels whose records the level before cannot express: the cluster does not go back before them."""


def register_broker_record_version(metadata_version: int) -> int:
    if metadata_version >= CORDONED_LOG_DIRS_SUPPORTED:
        return 4
    if metadata_version >= DIRECTORY_ASSIGNMENT_SUPPORTED:
        return 3
    return 2 if metadata_version >= 8 else 1


def partition_record_version(metadata_version: int) -> int:
    """The version of PartitionRecord and of PartitionChangeRecord."""
    if metadata_version >= ELR_SUPPORTED:
        return 2
    return 1 if metadata_version >= DIRECTORY_ASSIGNMENT_SUPPORTED else 0
