"""The description of a classic group in DescribeGroups."""

from __future__ import annotations

from ruslo.machines.groups.classic.group import ClassicGroup, ClassicState
from ruslo.protocol.messages.describe_groups_response import DescribedGroup, DescribedGroupMember


def describe(group: ClassicGroup) -> DescribedGroup:
    # During a rebalance no protocol is selected, so there is no metadata; assignments are the last ones.
    stable = group.state is ClassicState.STABLE
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        protocol_type=group.protocol_type,
        protocol_data=(group.protocol or "") if stable else "",
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(group.protocol) if stable else b"",
                member_assignment=member.assignment,
            )
            for member in group.members.values()
        ],
    )
