"""One step of a member towards its target, as far as revocations allow.

keep = assigned ∩ target, revoke = assigned \\ keep, add = target \\ keep without partitions of other members.
While the member has partitions to revoke, its epoch stays. When it has reported that they are revoked, it
gets the target epoch and all free partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from ruslo.machines.assignors.spec import Partitions
from ruslo.machines.groups.consumer.member import ConsumerMember, MemberState, PartitionEpochs
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import Uuid

Owned: TypeAlias = Mapping[Uuid, Collection[int]] | None
"""The partitions that a member reports to own; None: the request does not contain them."""


def reconcile(
    member: ConsumerMember,
    *,
    target_epoch: int,
    target: Partitions,
    subscribed_topic_ids: Callable[[], Collection[Uuid]],
    subscription_changed: bool,
    is_held: Callable[[Uuid, int], bool],
    owned: Owned,
) -> ConsumerMember:
    """The member after the step; the same object if no step is possible. ``is_held``: by any member."""
    if not subscription_changed and member.is_reconciled_to(target_epoch):
        return member
    step = _Step(member, target_epoch, target, subscribed_topic_ids, is_held, owned)
    if member.state is MemberState.STABLE:
        if member.epoch != target_epoch:
            return step.towards_target(member.epoch)
        return step.drop_unsubscribed()
    if member.state is MemberState.UNREVOKED and step.owns_any(member.pending_revocation):
        return step.drop_unsubscribed() if subscription_changed else member
    if member.state is MemberState.UNKNOWN:
        if owned is None or owned:
            raise KafkaError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The member is in a state of a newer release. Abandon all partitions and rejoin.",
            )
        return step.towards_target(target_epoch)
    return step.towards_target(member.epoch)


@dataclass(eq=False)
class _Step:
    _member: ConsumerMember
    _target_epoch: int
    _target: Partitions
    _subscribed_topic_ids: Callable[[], Collection[Uuid]]
    _is_held: Callable[[Uuid, int], bool]
    _owned: Owned

    def owns_any(self, partitions: PartitionEpochs) -> bool:
        """Whether the member may own one of these partitions; True if it does not report its partitions."""
        if self._owned is None:
            return True
        return any(
            partition in partitions[topic_id]
            for topic_id, indexes in self._owned.items()
            if topic_id in partitions
            for partition in indexes
        )

    def drop_unsubscribed(self) -> ConsumerMember:
        """Revoke partitions of topics that it does not subscribe to any more, before the next target."""
        member = self._member
        subscribed = self._subscribed_topic_ids()
        dropped = {topic_id: held for topic_id, held in member.assigned.items() if topic_id not in subscribed}
        if not dropped:
            return member
        assigned = {topic_id: held for topic_id, held in member.assigned.items() if topic_id in subscribed}
        pending: dict[Uuid, Mapping[int, int]] = dict(member.pending_revocation)
        for topic_id, held in dropped.items():
            pending[topic_id] = {**pending.get(topic_id, {}), **held}
        if self.owns_any(pending):
            return self._moved(member.epoch, MemberState.UNREVOKED, assigned, pending)
        return self._moved(member.epoch, member.state, assigned, member.pending_revocation)

    def towards_target(self, epoch: int) -> ConsumerMember:
        member = self._member
        subscribed = self._subscribed_topic_ids()
        keep: dict[Uuid, dict[int, int]] = {}
        revoke: dict[Uuid, dict[int, int]] = {}
        for topic_id, held in member.assigned.items():
            wanted = self._target.get(topic_id, frozenset()) if topic_id in subscribed else frozenset()
            kept = {partition: since for partition, since in held.items() if partition in wanted}
            if kept:
                keep[topic_id] = kept
            if len(kept) < len(held):
                revoke[topic_id] = {
                    partition: since for partition, since in held.items() if partition not in wanted
                }
        if revoke and self.owns_any(revoke):
            return self._moved(epoch, MemberState.UNREVOKED, keep, revoke)
        unreleased = self._add_free(keep, subscribed)
        state = MemberState.UNRELEASED if unreleased else MemberState.STABLE
        return self._moved(self._target_epoch, state, keep, {})

    def _add_free(self, assigned: dict[Uuid, dict[int, int]], subscribed: Collection[Uuid]) -> bool:
        """Add free partitions of the target; returns whether other members still own some of it."""
        unreleased = False
        for topic_id, partitions in self._target.items():
            if topic_id not in subscribed:
                continue
            had = self._member.assigned.get(topic_id, {})
            own_pending = self._member.pending_revocation.get(topic_id, {})
            for partition in sorted(partitions):
                if partition in had:
                    continue
                if partition not in own_pending and self._is_held(topic_id, partition):
                    unreleased = True
                else:
                    assigned.setdefault(topic_id, {})[partition] = self._target_epoch
        return unreleased

    def _moved(
        self, epoch: int, state: MemberState, assigned: PartitionEpochs, pending: PartitionEpochs
    ) -> ConsumerMember:
        return replace(
            self._member,
            epoch=epoch,
            previous_epoch=self._member.epoch,
            state=state,
            assigned=assigned,
            pending_revocation=pending,
        )
