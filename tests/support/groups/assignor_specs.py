"""Short builders of group specs for assignors, and random specs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from hypothesis import strategies as st

from ruslo.machines.assignors.check import checked
from ruslo.machines.assignors.spec import Assignor, GroupSpec, MemberSpec, Partitions, TopicSpec
from ruslo.model.ids import Uuid

Shares = dict[str, dict[str, list[int]]]


def topic_id(name: str) -> Uuid:
    return name.encode().ljust(16, b"\0")


def topic(
    name: str, partition_count: int, racks: Sequence[Iterable[str]] = (), lags: Sequence[int] = ()
) -> TopicSpec:
    in_racks = tuple(map(frozenset, racks))
    return TopicSpec(topic_id(name), name, partition_count, in_racks, tuple(lags))


def member(
    member_id: str,
    topics: Iterable[str],
    current: Mapping[str, Iterable[int]] | None = None,
    *,
    instance_id: str | None = None,
    rack_id: str | None = None,
    client_id: str = "",
) -> MemberSpec:
    held = {topic_id(name): frozenset(partitions) for name, partitions in (current or {}).items()}
    subscribed = frozenset(map(topic_id, topics))
    return MemberSpec(member_id, subscribed, held, instance_id, rack_id, client_id)


def group(topics: Iterable[TopicSpec], members: Iterable[MemberSpec]) -> GroupSpec:
    by_id = {each.member_id: each for each in members}
    subscriptions = {each.subscribed_topic_ids for each in by_id.values()}
    wanted = frozenset[Uuid]().union(*subscriptions)
    by_topic_id = {each.topic_id: each for each in topics if each.topic_id in wanted}
    return GroupSpec("g", by_id, by_topic_id, len(subscriptions) <= 1)


def shares(assignor: Assignor, spec: GroupSpec) -> Shares:
    """Check the assignment and return it with names instead of ids."""
    return {
        member_id: {spec.topics[each].name: sorted(held) for each, held in sorted(partitions.items())}
        for member_id, partitions in checked(spec, assignor.assign(spec)).items()
    }


def held(spec: GroupSpec, assignment: Mapping[str, Partitions]) -> dict[str, set[tuple[Uuid, int]]]:
    """The topic partitions of each member."""
    return {
        member_id: {
            (each, partition)
            for each, partitions in assignment.get(member_id, {}).items()
            for partition in partitions
        }
        for member_id in spec.members
    }


def continued(spec: GroupSpec, assignment: Mapping[str, Partitions]) -> GroupSpec:
    """The same group with this assignment as its current target."""
    members = {
        member_id: replace(each, current=assignment.get(member_id, {}))
        for member_id, each in spec.members.items()
    }
    return replace(spec, members=members)


RACKS = ("r1", "r2", "r3")


@st.composite
def groups(draw: st.DrawFn, *, homogeneous: bool | None = None) -> GroupSpec:
    """Any group: racks, lags and weights, with a current target that may contain unsubscribed topics."""
    topics = []
    for number in range(draw(st.integers(1, 4))):
        size = draw(st.integers(1, 12))
        racks = st.lists(st.frozensets(st.sampled_from(RACKS), min_size=1), min_size=size, max_size=size)
        lags = st.lists(st.integers(-1, 1_000), min_size=size, max_size=size)
        topics.append(topic(f"t{number}", size, draw(st.just([]) | racks), draw(st.just([]) | lags)))
    names = [each.name for each in topics]
    same_topics = draw(st.booleans()) if homogeneous is None else homogeneous
    members = [
        member(
            f"m{number}",
            names if same_topics else draw(st.frozensets(st.sampled_from(names))),
            instance_id=draw(st.none() | st.just(f"i{number}")),
            rack_id=draw(st.none() | st.sampled_from(RACKS)),
            client_id=draw(st.sampled_from(["", "app;weight=2", "weight=0.5"])),
        )
        for number in range(draw(st.integers(1, 7)))
    ]
    owned: dict[str, dict[Uuid, set[int]]] = {each.member_id: {} for each in members}
    for each in topics:
        owners = draw(
            st.lists(
                st.none() | st.sampled_from([one.member_id for one in members]),
                min_size=each.partition_count,
                max_size=each.partition_count,
            )
        )
        for partition, owner in enumerate(owners):
            if owner is not None:
                owned[owner].setdefault(each.topic_id, set()).add(partition)
    spec = group(topics, members)
    return continued(
        spec,
        {
            member_id: {each: frozenset(partitions) for each, partitions in by_topic.items()}
            for member_id, by_topic in owned.items()
        },
    )
