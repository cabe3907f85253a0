"""range: a contiguous range of each topic's partitions per subscriber, so equal topics are co-partitioned.

Static members come first, by instance id, which they keep; the others follow by member id. With P partitions
and M subscribers, the first P mod M get one more than the rest.
"""

from __future__ import annotations

from ruslo.machines.assignors.spec import GroupSpec, MemberSpec, Partitions
from ruslo.model.ids import Uuid


class RangeAssignor:
    name = "range"
    needs_lag = False

    def assign(self, group: GroupSpec) -> dict[str, Partitions]:
        members = sorted(group.members.values(), key=_place)
        shares: dict[Uuid, tuple[int, int]] = {}
        next_partition: dict[Uuid, int] = {}
        for topic_id, subscribers in group.subscribers().items():
            if subscribers:
                shares[topic_id] = divmod(group.topics[topic_id].partition_count, len(subscribers))
                next_partition[topic_id] = 0
        assignment: dict[str, Partitions] = {}
        for member in members:
            partitions: dict[Uuid, frozenset[int]] = {}
            for topic_id in member.subscribed_topic_ids:
                share, longer_shares = shares[topic_id]
                start = next_partition[topic_id]
                end = start + share + (start < longer_shares * (share + 1))
                if start < end:
                    partitions[topic_id] = frozenset(range(start, end))
                    next_partition[topic_id] = end
            assignment[member.member_id] = partitions
        return assignment


def _place(member: MemberSpec) -> tuple[bool, bytes]:
    static = member.instance_id is not None
    return not static, _utf16_order(member.instance_id or "" if static else member.member_id)


def _utf16_order(text: str) -> bytes:
    """The order of Java strings: by UTF-16 units, not by code points."""
    return text.encode("utf-16-be", "surrogatepass")
