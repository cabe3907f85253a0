"""The invariants of groups; a failing run names the one that is broken."""

from __future__ import annotations

from collections.abc import Iterable

from ruslo.machines.groups.classic.group import ClassicGroup, ClassicState
from ruslo.machines.groups.consumer.group import ConsumerGroup
from ruslo.machines.groups.consumer.patterns import matching_topics
from ruslo.machines.groups.events import GroupEvent
from ruslo.machines.groups.group import Group
from ruslo.machines.groups.shard import GroupShard
from ruslo.machines.machine import Requested
from ruslo.model.ids import Uuid
from ruslo.model.topics import TopicPartition
from ruslo.protocol.messages.consumer_group_metadata_key import ConsumerGroupMetadataKey
from ruslo.protocol.messages.consumer_group_metadata_value import ConsumerGroupMetadataValue
from ruslo.protocol.messages.group_metadata_key import GroupMetadataKey
from ruslo.protocol.messages.group_metadata_value import GroupMetadataValue
from ruslo.protocol.messages.offset_commit_key import OffsetCommitKey
from ruslo.protocol.messages.offset_commit_value import OffsetCommitValue
from ruslo.testing.simulation.groups.consumer_member import ConsumerSimMember
from ruslo.testing.simulation.groups.coordinator import SimCoordinator
from ruslo.testing.simulation.groups.log import Batch
from ruslo.testing.simulation.groups.member import SimMember
from ruslo.testing.simulation.raft.invariants import InvariantBrokenError

MAX_PENDING_MS = 400_000
"""The longest time that a request may be parked: a new member's first JoinGroup, 300 s, and some reserve."""

ONE_OWNER = "no partition has two owners in one generation or epoch"
OFFSETS_KEPT = "no committed offset is lost or moved back by the broker"
EPOCHS_INCREASE = "epochs and generations never decrease"
ALL_OWNED = "every partition has an owner when faults have stopped"
ALL_RESPONDED = "every request gets a response"
LOG_IS_STATE = "replaying the log gives the served state"


class GroupInvariants:
    """Checks a coordinator and its clients."""

    def __init__(self) -> None:
        self.members: list[SimMember] = []
        """All clients that are alive."""
        self._epochs: dict[str, tuple[int, bool]] = {}
        """The last committed epoch or generation of each group, and whether the group had members."""
        self._committed: dict[tuple[str, TopicPartition], int] = {}
        """The committed offsets."""
        self._acked: dict[tuple[str, TopicPartition], int] = {}
        self._deleted_topics: set[str] = set()

    # -- the log ---------------------------------------------------------------------------------------------

    def on_committed(self, batch: Batch) -> None:
        ended: dict[str, int] = {}
        for logged in batch:
            key, value = logged.record.key, logged.record.value
            if isinstance(key, OffsetCommitKey):
                assert value is None or isinstance(value, OffsetCommitValue)
                self._offset_written(key, value)
            elif isinstance(key, GroupMetadataKey):
                assert value is None or isinstance(value, GroupMetadataValue)
                self._classic_written(key.group, value, ended)
            elif isinstance(key, ConsumerGroupMetadataKey):
                if value is None:
                    ended[key.group_id] = self._epochs.pop(key.group_id, (0, False))[0]
                else:
                    assert isinstance(value, ConsumerGroupMetadataValue)
                    self._check_epoch(key.group_id, value.epoch, has_members=True)

    def _classic_written(
        self, group_id: str, value: GroupMetadataValue | None, ended: dict[str, int]
    ) -> None:
        if value is None:
            if not self._epochs.get(group_id, (0, False))[1]:
                # The group was empty: a new group with this id starts again.
                self._epochs.pop(group_id, None)
            return
        if value.members and group_id in ended:
            self._epochs[group_id] = (ended[group_id], True)
        self._check_epoch(group_id, value.generation, has_members=bool(value.members))

    def _check_epoch(self, group_id: str, epoch: int, *, has_members: bool) -> None:
        known = self._epochs.get(group_id, (0, False))[0]
        if epoch < known:
            raise InvariantBrokenError(EPOCHS_INCREASE, f"group {group_id}: {known}, then {epoch}")
        self._epochs[group_id] = (epoch, has_members)

    def _offset_written(self, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        group_tp = (key.group, TopicPartition(key.topic, key.partition))
        if value is None:
            if key.topic not in self._deleted_topics:
                raise InvariantBrokenError(OFFSETS_KEPT, f"{group_tp} was removed, but its topic exists")
            self._committed.pop(group_tp, None)
            return
        known = self._committed.get(group_tp, -1)
        if value.offset < known:
            raise InvariantBrokenError(OFFSETS_KEPT, f"{group_tp} went from {known} back to {value.offset}")
        self._committed[group_tp] = value.offset

    # -- responses to clients --------------------------------------------------------------------------------

    def topic_deleted(self, name: str) -> None:
        self._deleted_topics.add(name)

    def acked(self, group_id: str, tp: TopicPartition, offset: int) -> None:
        known = self._committed.get((group_id, tp), -1)
        if known < offset and tp.topic not in self._deleted_topics:
            raise InvariantBrokenError(OFFSETS_KEPT, f"{group_id} {tp}: {offset} acked, {known} committed")
        self._acked[group_id, tp] = max(offset, self.acked_so_far(group_id, tp))

    def acked_so_far(self, group_id: str, tp: TopicPartition) -> int:
        return self._acked.get((group_id, tp), -1)

    def fetched(self, group_id: str, tp: TopicPartition, offset: int, at_least: int) -> None:
        if offset < at_least and tp.topic not in self._deleted_topics:
            raise InvariantBrokenError(OFFSETS_KEPT, f"{group_id} {tp}: {at_least} acked, {offset} read")

    # -- the coordinator's state -----------------------------------------------------------------------------

    def check_step(self, coordinator: SimCoordinator, event: GroupEvent) -> None:
        """Check the group of the event, after each event."""
        self._check_pending_requests(coordinator)
        shard = coordinator.shard
        if shard is None:
            return
        if isinstance(event, Requested) and (group_id := getattr(event.request, "group_id", "")):
            groups: Iterable[Group | None] = [shard.state.groups.get(group_id)]
        else:
            groups = shard.state.groups.values()
        for group in groups:
            if isinstance(group, ConsumerGroup):
                self._check_consumer_group(group)
            if group is not None:
                self._check_owners(group)

    def _check_pending_requests(self, coordinator: SimCoordinator) -> None:
        oldest = next(iter(coordinator.calls.values()), None)
        now_ms = coordinator.clock.monotonic_ms()
        if oldest is not None and now_ms - oldest.since_ms > MAX_PENDING_MS:
            raise InvariantBrokenError(ALL_RESPONDED, f"{oldest.request} of {oldest.since_ms} at {now_ms}")

    def _check_consumer_group(self, group: ConsumerGroup) -> None:
        if group.target_epoch > group.epoch:
            raise InvariantBrokenError(EPOCHS_INCREASE, f"{group.group_id}: the target is ahead of the group")
        holders: dict[tuple[Uuid, int], str] = {}
        for member in group.members.values():
            if member.epoch > group.target_epoch:
                raise InvariantBrokenError(EPOCHS_INCREASE, f"{member.member_id} is ahead of its target")
            for held in (member.assigned, member.pending_revocation):
                for topic_id, partitions in held.items():
                    for partition in partitions:
                        other = holders.setdefault((topic_id, partition), member.member_id)
                        if other != member.member_id:
                            raise InvariantBrokenError(
                                ONE_OWNER,
                                f"group {group.group_id}, epoch {group.epoch}: partition {partition} is "
                                f"with {other} and {member.member_id}",
                            )

    def _check_owners(self, group: Group) -> None:
        """Check the owned partitions of clients that the coordinator considers as members."""
        owners: dict[TopicPartition, str] = {}
        for client in self.members:
            if client.owned and client.group_id == group.group_id and _is_member(client, group):
                for tp in client.owned:
                    other = owners.setdefault(tp, client.name)
                    if other != client.name:
                        raise InvariantBrokenError(
                            ONE_OWNER,
                            f"group {group.group_id}: {other} and {client.name} both read {tp} "
                            f"at {client.epoch}",
                        )

    # -- the whole state -------------------------------------------------------------------------------------

    def check_log(self, coordinator: SimCoordinator) -> None:
        live = coordinator.shard
        if live is None:
            return
        again = coordinator.replayed()
        _same("offsets", _offsets(live), _offsets(again))
        ids = {group_id for group_id in live.state.groups if group_id not in coordinator.uncommitted_groups}
        _same("groups", ids, again.state.groups.keys() - coordinator.uncommitted_groups)
        for group_id in sorted(ids):
            served, replayed = live.state.groups[group_id], again.state.groups[group_id]
            _same(f"{group_id} kind", served.kind, replayed.kind)
            _same(group_id, _logged_state(served), _logged_state(replayed) if _logged_state(served) else {})

    def check_recovered(self, coordinator: SimCoordinator) -> None:
        """Check the state after some minutes without faults."""
        shard = coordinator.shard
        assert shard is not None
        for group_id in sorted({client.group_id for client in self.members if client.alive}):
            group = shard.state.groups.get(group_id)
            state = None if group is None else group.state_name
            if state != "Stable":
                raise InvariantBrokenError(ALL_OWNED, f"group {group_id} is {state}")
            clients = [each for each in self.members if each.alive and each.group_id == group_id]
            wanted = {tp for client in clients for tp in subscribed_partitions(client, coordinator)}
            owned = [tp for client in clients for tp in client.owned]
            if sorted(owned) != sorted(wanted):
                missing = sorted(wanted - set(owned))
                raise InvariantBrokenError(
                    ALL_OWNED,
                    f"group {group_id}: no member owns {missing}; unexpected: {sorted(set(owned) - wanted)}, "
                    f"duplicate: {sorted({tp for tp in owned if owned.count(tp) > 1})}",
                )
        for (group_id, tp), offset in self._committed.items():
            known = shard.state.offsets.get(group_id, tp.topic, tp.partition)
            if known is None or known.offset != offset:
                raise InvariantBrokenError(OFFSETS_KEPT, f"{group_id} {tp}: {offset} became {known}")


def subscribed_partitions(client: SimMember, coordinator: SimCoordinator) -> set[TopicPartition]:
    names = set(client.topics)
    if isinstance(client, ConsumerSimMember) and client.regex:
        names.update(matching_topics(client.regex, coordinator.topics.all_names()))
    topics = (coordinator.topics.by_name(name) for name in names)
    return {
        TopicPartition(topic.name, partition)
        for topic in topics
        if topic is not None
        for partition in range(topic.partition_count)
    }


def _is_member(client: SimMember, group: Group) -> bool:
    """Whether the coordinator would accept its commits."""
    if isinstance(group, ClassicGroup):
        current = client.epoch == group.generation and client.member_id in group.members
        return current and group.state in (ClassicState.COMPLETING, ClassicState.STABLE)
    assert isinstance(group, ConsumerGroup)
    member = group.members.get(client.member_id)
    return member is not None and client.epoch > 0


def _offsets(shard: GroupShard) -> dict[str, object]:
    store = shard.state.offsets
    return {group_id: store.of_group(group_id) for group_id in store.group_ids()}


def _logged_state(group: Group) -> dict[str, object]:
    """The logged state of a group; nothing of a classic group during a rebalance."""
    if isinstance(group, ConsumerGroup):
        return {
            "epoch": group.epoch,
            "target_epoch": group.target_epoch,
            "target": group.target,
            "members": group.members,
            "static_members": group.static_members,
            "resolved": group.resolved,
            "metadata_hash": group.metadata_hash,
        }
    assert isinstance(group, ClassicGroup)
    if group.state not in (ClassicState.STABLE, ClassicState.EMPTY):
        return {}
    return {
        "generation": group.generation,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol,
        "leader": group.leader,
        "members": {
            member.member_id: (member.instance_id, member.assignment, member.metadata(group.protocol))
            for member in group.members.values()
        },
    }


def _same(what: str, served: object, replayed: object) -> None:
    if served != replayed:
        raise InvariantBrokenError(LOG_IS_STATE, f"{what}: {served!r}, but the log says {replayed!r}")
