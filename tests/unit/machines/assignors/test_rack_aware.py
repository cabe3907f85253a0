"""rack-aware: as balanced as uniform, with as many partitions in the members' racks as possible."""

from __future__ import annotations

from hypothesis import given, settings

from ruslo.machines.assignors.rack_aware import RackAwareAssignor
from ruslo.machines.assignors.spec import GroupSpec, Partitions
from ruslo.machines.assignors.uniform import UniformAssignor
from tests.support.groups.assignor_specs import group, groups, held, member, shares, topic

RACK_AWARE = RackAwareAssignor()


def local_count(spec: GroupSpec, assignment: dict[str, Partitions]) -> int:
    return sum(
        spec.members[member_id].rack_id in spec.topics[topic_id].racks_of(partition)
        for member_id, partitions in held(spec, assignment).items()
        for topic_id, partition in partitions
    )


def test_members_fetch_within_their_racks() -> None:
    racks = [["r3"], ["r1"], ["r2"], ["r3"], ["r1"], ["r2"]]
    spec = group(
        [topic("t", 6, racks)],
        [
            member("a", ["t"], rack_id="r1"),
            member("b", ["t"], rack_id="r2"),
            member("c", ["t"], rack_id="r3"),
        ],
    )
    assert shares(RACK_AWARE, spec) == {"a": {"t": [1, 4]}, "b": {"t": [2, 5]}, "c": {"t": [0, 3]}}


def test_balance_comes_before_locality() -> None:
    spec = group(
        [topic("t", 4, [["r1"]] * 4)],
        [member("is_local", ["t"], rack_id="r1"), member("far", ["t"], rack_id="r2")],
    )
    counts = {each: len(topics["t"]) for each, topics in shares(RACK_AWARE, spec).items()}
    assert counts == {"is_local": 2, "far": 2}


def test_larger_quota_goes_to_a_local_member() -> None:
    spec = group(
        [topic("t", 3, [["r1"], ["r1"], ["r2"]])],
        [member("b", ["t"], {"t": [0]}, rack_id="r1"), member("a", ["t"], {"t": [1, 2]}, rack_id="r2")],
    )
    assert shares(RACK_AWARE, spec) == {"a": {"t": [2]}, "b": {"t": [0, 1]}}


def test_local_partitions_stay() -> None:
    spec = group(
        [topic("t", 4, [["r1", "r2"]] * 4)],
        [
            member("a", ["t"], {"t": [1, 3]}, rack_id="r1"),
            member("b", ["t"], {"t": [0, 2]}, rack_id="r2"),
        ],
    )
    assert shares(RACK_AWARE, spec) == {"a": {"t": [1, 3]}, "b": {"t": [0, 2]}}


def test_swaps_respect_subscriptions() -> None:
    spec = group(
        [topic("t", 2, [["r1"], ["r1"]]), topic("u", 2, [["r2"], ["r2"]])],
        [member("a", ["t", "u"], rack_id="r2"), member("b", ["t"], rack_id="r1")],
    )
    assert shares(RACK_AWARE, spec) == {"a": {"u": [0, 1]}, "b": {"t": [0, 1]}}


@settings(max_examples=25)
@given(spec=groups())
def test_as_balanced_as_uniform_and_at_least_as_local(spec: GroupSpec) -> None:
    even, local = UniformAssignor().assign(spec), RACK_AWARE.assign(spec)
    assert sorted(map(len, held(spec, local).values())) == sorted(map(len, held(spec, even).values()))
    assert local_count(spec, local) >= local_count(spec, even)


@settings(max_examples=25)
@given(spec=groups(homogeneous=True))
def test_no_swap_would_make_more_partitions_local(spec: GroupSpec) -> None:
    after = held(spec, RACK_AWARE.assign(spec))

    def is_local(member_id: str, moved: tuple[bytes, int]) -> bool:
        rack, racks = spec.members[member_id].rack_id, spec.topics[moved[0]].racks_of(moved[1])
        return rack is not None and rack in racks

    for one, of_one in after.items():
        for other, of_other in after.items():
            if spec.members[one].rack_id is None or spec.members[other].rack_id is None:
                continue
            for moved in of_one:
                for exchanged in of_other:
                    if one != other and spec.topics[moved[0]].racks:
                        now = is_local(one, moved) + is_local(other, exchanged)
                        assert is_local(other, moved) + is_local(one, exchanged) <= now
