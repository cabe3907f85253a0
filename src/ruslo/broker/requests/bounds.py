"""Limits of a request, checked before it is decoded: bytes, and elements of all its arrays together.

Decoding an element takes up to 2 µs and 300 bytes; handling it takes up to 20 µs. Hence three rules:

* A request of more than ``INLINE_BYTES`` is decoded in a thread, not on the event loop.
* A request with more than ``INLINE_ELEMENTS`` is handled in parts if its elements are independent of each
  other (``requests/parts``).
* A request that is handled as a whole has a limit of elements that keeps the event loop below 50 ms.

Produce and Fetch have codecs of their own, which count partitions (``protocol.flat_reader``).
"""

from __future__ import annotations

from typing import NamedTuple

INLINE_BYTES = 16 * 1024
"""The largest body that is decoded on the event loop: at one byte an element that takes 20 ms at most."""
INLINE_ELEMENTS = 1_000
LARGE_REQUESTS_MAX = 8
"""Requests above the two limits that are handled at a time; further ones wait undecoded."""


class RequestBound(NamedTuple):
    max_bytes: int
    max_elements: int


_MIB = 1024 * 1024
_DEFAULT = RequestBound(8 * _MIB, 10_000)
_IN_PARTS = RequestBound(8 * _MIB, 50_000)
_FEW_NAMES = RequestBound(_MIB, 1_000)
_GROUP_STATE = RequestBound(32 * _MIB, 10_000)

_BOUNDS = {
    # Handled in parts.
    "ConsumerGroupDescribe": _IN_PARTS,
    "DeleteGroups": _IN_PARTS,
    "DeleteRecords": _IN_PARTS,
    "DescribeConfigs": RequestBound(8 * _MIB, 20_000),
    "DescribeGroups": _IN_PARTS,
    "DescribeProducers": RequestBound(8 * _MIB, 20_000),
    "DescribeTransactions": _IN_PARTS,
    "FindCoordinator": _IN_PARTS,
    "ListOffsets": _IN_PARTS,
    "Metadata": _IN_PARTS,
    "OffsetForLeaderEpoch": _IN_PARTS,
    "ShareGroupDescribe": _IN_PARTS,
    "StreamsGroupDescribe": RequestBound(8 * _MIB, 15_000),
    # In parts of groups; the partitions of one group are handled together.
    "DescribeShareGroupOffsets": RequestBound(8 * _MIB, 20_000),
    "OffsetFetch": RequestBound(8 * _MIB, 20_000),
    # An element costs a lookup in a set.
    "DescribeLogDirs": RequestBound(8 * _MIB, 20_000),
    # From brokers, for the partitions of a share group's topics; in parts.
    "DeleteShareGroupState": _IN_PARTS,
    "InitializeShareGroupState": _IN_PARTS,
    "ReadShareGroupState": _IN_PARTS,
    "ReadShareGroupStateSummary": _IN_PARTS,
    "WriteShareGroupState": _IN_PARTS,
    # From members of share groups: an acknowledge type for each record that they fetched.
    "ShareAcknowledge": RequestBound(8 * _MIB, 30_000),
    "ShareFetch": RequestBound(8 * _MIB, 30_000),
    # The controller limits the metadata records of a request; replica ids are elements too.
    "AlterPartitionReassignments": RequestBound(8 * _MIB, 20_000),
    "CreatePartitions": RequestBound(8 * _MIB, 20_000),
    "CreateTopics": RequestBound(8 * _MIB, 30_000),
    # From brokers, for the partitions that they host.
    "AlterPartition": _IN_PARTS,
    "AssignReplicasToDirs": _IN_PARTS,
    "WriteTxnMarkers": RequestBound(8 * _MIB, 20_000),
    # From members of groups: subscriptions and owned partitions.
    "ConsumerGroupHeartbeat": RequestBound(8 * _MIB, 30_000),
    "ShareGroupHeartbeat": RequestBound(8 * _MIB, 30_000),
    # A topology with the configs of its internal topics.
    "StreamsGroupHeartbeat": RequestBound(8 * _MIB, 20_000),
    # The coordinator keeps the description in memory.
    "StreamsGroupTopologyDescriptionUpdate": RequestBound(_MIB, 10_000),
    # A few names: protocols of a member, filters, features.
    "JoinGroup": RequestBound(32 * _MIB, 1_000),
    "ListConfigResources": _FEW_NAMES,
    "ListGroups": _FEW_NAMES,
    "ListTransactions": _FEW_NAMES,
    "UpdateFeatures": _FEW_NAMES,
    # Few elements with many bytes: assignments of large groups, enclosed requests.
    "Envelope": _GROUP_STATE,
    "SyncGroup": _GROUP_STATE,
}


def bound_of(api_name: str) -> RequestBound:
    return _BOUNDS.get(api_name, _DEFAULT)
