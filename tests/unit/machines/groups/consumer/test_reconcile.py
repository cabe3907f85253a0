"""One reconciliation step of a member: what it keeps, revokes and gets."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruslo.machines.groups.consumer.member import ConsumerMember, MemberState
from ruslo.machines.groups.consumer.reconcile import reconcile
from tests.support.groups.group_bench import topic_id

T, U = topic_id(1), topic_id(2)
MEMBER = ConsumerMember("a", epoch=3, previous_epoch=2, assigned={T: {0: 2, 1: 3}})


def step(
    member: ConsumerMember = MEMBER,
    *,
    epoch: int = 4,
    target: tuple[int, ...] = (1, 2),
    subscribed: tuple[bytes, ...] = (T,),
    changed: bool = False,
    held: tuple[int, ...] = (0, 1),
    owned: tuple[int, ...] | None = None,
) -> ConsumerMember:
    return reconcile(
        member,
        target_epoch=epoch,
        target={T: frozenset(target)} if target else {},
        subscribed_topic_ids=lambda: subscribed,
        subscription_changed=changed,
        is_held=lambda topic, partition: topic == T and partition in held,
        owned=None if owned is None else {T: owned},
    )


def test_member_at_its_target_does_not_change() -> None:
    assert step(epoch=3) is MEMBER


def test_revocation_comes_first() -> None:
    moved = step()
    assert moved == replace(
        MEMBER,
        epoch=3,
        previous_epoch=3,
        state=MemberState.UNREVOKED,
        assigned={T: {1: 3}},
        pending_revocation={T: {0: 2}},
    )
    assert step(moved) is moved, "the member does not report its partitions"
    assert step(moved, owned=(0, 1)) is moved, "the member has not revoked yet"


def test_free_partitions_follow() -> None:
    moved = step(step(), owned=(1,))
    assert moved == replace(
        MEMBER, epoch=4, previous_epoch=3, state=MemberState.STABLE, assigned={T: {1: 3, 2: 4}}
    )


def test_no_revocation_if_the_member_has_already_revoked() -> None:
    assert step(owned=(1,)).epoch == 4
    assert step(owned=()).epoch == 4


def test_member_waits_for_partitions_of_other_members() -> None:
    moved = step(owned=(1,), held=(0, 1, 2))
    assert moved.state is MemberState.UNRELEASED
    assert moved.assigned == {T: {1: 3}}
    later = step(moved, held=(1,))
    assert later.state is MemberState.STABLE
    assert later.assigned == {T: {1: 3, 2: 4}}


def test_partition_to_be_revoked_may_be_assigned_again() -> None:
    moved = step(step(), owned=(1,), target=(0, 1), held=(0, 1))
    assert moved.state is MemberState.STABLE
    assert moved.assigned == {T: {0: 4, 1: 3}}


def test_unsubscribed_topics_in_the_target_are_ignored() -> None:
    moved = step(subscribed=(U,), owned=())
    assert (moved.epoch, moved.state, moved.assigned) == (4, MemberState.STABLE, {})


def test_unsubscribed_topics_are_dropped_even_at_the_target() -> None:
    dropped = step(epoch=3, subscribed=(U,), changed=True)
    assert (dropped.epoch, dropped.state) == (3, MemberState.UNREVOKED)
    assert (dropped.assigned, dropped.pending_revocation) == ({}, {T: {0: 2, 1: 3}})
    revoked = step(epoch=3, subscribed=(U,), changed=True, owned=())
    assert (revoked.epoch, revoked.state, revoked.assigned) == (3, MemberState.STABLE, {})
    assert step(epoch=3, changed=True) is MEMBER


def test_further_revocations_during_a_revocation() -> None:
    revoking = step()
    more = step(revoking, subscribed=(U,), changed=True)
    assert more.pending_revocation == {T: {0: 2, 1: 3}}
    assert more.assigned == {}


partitions = st.frozensets(st.integers(0, 7), max_size=8)


@given(
    assigned=partitions,
    target=partitions,
    others=partitions,
    keeps=partitions,
    reported=st.booleans(),
    epochs=st.tuples(st.integers(1, 5), st.integers(0, 3)),
)
def test_random_targets(
    assigned: frozenset[int],
    target: frozenset[int],
    others: frozenset[int],
    keeps: frozenset[int],
    reported: bool,
    epochs: tuple[int, int],
) -> None:
    """A member never gets partitions of others, revokes before it advances, and reaches its target."""
    epoch, behind = epochs
    others -= assigned
    member = ConsumerMember(
        "a", epoch=epoch, assigned={T: dict.fromkeys(assigned, epoch)} if assigned else {}
    )
    target_epoch = epoch + behind

    def stepped(member: ConsumerMember, owned: frozenset[int] | None, held: frozenset[int]) -> ConsumerMember:
        own = member.assigned.get(T, {}).keys() | member.pending_revocation.get(T, {}).keys()
        return reconcile(
            member,
            target_epoch=target_epoch,
            target={T: target},
            subscribed_topic_ids=lambda: (T,),
            subscription_changed=False,
            is_held=lambda topic, partition: partition in held or partition in own,
            owned=None if owned is None else {T: owned},
        )

    moved = stepped(member, keeps & assigned if reported else None, others)
    has = moved.assigned.get(T, {}).keys()
    assert not has & others
    assert has <= assigned | target
    if moved.state is MemberState.UNREVOKED:
        assert moved.epoch == epoch
        assert moved.pending_revocation[T].keys() == assigned - target
    else:
        assert moved.epoch == target_epoch
        assert not moved.pending_revocation
    if behind:
        reconciled = stepped(stepped(moved, frozenset(has), frozenset()), frozenset(has), frozenset())
        assert reconciled.is_reconciled_to(target_epoch)
        assert reconciled.assigned.get(T, {}).keys() == target


@pytest.mark.parametrize("state", list(MemberState))
def test_only_stable_members_are_reconciled(state: MemberState) -> None:
    assert replace(MEMBER, state=state).is_reconciled_to(3) == (state is MemberState.STABLE)
