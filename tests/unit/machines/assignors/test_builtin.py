"""Properties of every built-in assignor."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from ruslo.machines.assignors.builtin import BUILTIN_ASSIGNORS
from ruslo.machines.assignors.check import checked
from ruslo.machines.assignors.spec import GroupSpec
from tests.support.groups.assignor_specs import continued, group, groups, held, member, topic


def test_names() -> None:
    assert list(BUILTIN_ASSIGNORS) == ["uniform", "range", "rack-aware", "lag-aware", "weighted"]


@pytest.mark.parametrize("name", BUILTIN_ASSIGNORS)
@settings(max_examples=25)
@given(spec=groups())
def test_every_partition_goes_to_exactly_one_subscriber(name: str, spec: GroupSpec) -> None:
    checked(spec, BUILTIN_ASSIGNORS[name].assign(spec))


@pytest.mark.parametrize("name", BUILTIN_ASSIGNORS)
@settings(max_examples=25)
@given(spec=groups())
def test_stable_group_does_not_move(name: str, spec: GroupSpec) -> None:
    """Repeated with its own result as the current assignment, an assignor stops moving partitions."""
    assignor = BUILTIN_ASSIGNORS[name]
    for _ in range(8):
        assignment = checked(spec, assignor.assign(spec))
        before, after = held(spec, _current(spec)), held(spec, assignment)
        if before == after:
            return
        spec = continued(spec, assignment)
    pytest.fail(f"{name} never comes to rest")


@pytest.mark.parametrize("name", BUILTIN_ASSIGNORS)
def test_group_without_members_or_topics(name: str) -> None:
    assignor = BUILTIN_ASSIGNORS[name]
    assert not any(assignor.assign(group([topic("t", 3)], [])).values())
    assert not any(assignor.assign(group([], [member("a", [])])).values())


def _current(spec: GroupSpec) -> dict[str, dict[bytes, frozenset[int]]]:
    return {member_id: dict(each.current) for member_id, each in spec.members.items()}
