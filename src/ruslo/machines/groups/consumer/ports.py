"""How the machine reaches the assignors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol, TypeAlias

from ruslo.machines.assignors.builtin import BUILTIN_ASSIGNORS
from ruslo.machines.assignors.spec import Assignor, GroupSpec, Partitions


class AssignorFailure(NamedTuple):
    """An assignor gave no usable target; the group keeps the one it has."""

    assignor: str
    message: str


AssignorResult: TypeAlias = Mapping[str, Partitions] | AssignorFailure
"""A target that passed ``assignors.check.checked``, or why there is none."""


class AssignorPort(Protocol):
    def assign(self, name: str, spec: GroupSpec) -> AssignorResult | None:
        """Run it here and now; None if it must not be: then the machine asks with ``ComputeTarget``."""
        ...


class InlineAssignors:
    """Assignors that come with Ruslo are quick and correct, so they run in the machine.

    One that needs the lag cannot: the driver has to look that up first.
    """

    def __init__(self, assignors: Mapping[str, Assignor] = BUILTIN_ASSIGNORS) -> None:
        self._assignors = assignors

    def assign(self, name: str, spec: GroupSpec) -> AssignorResult | None:
        assignor = self._assignors.get(name)
        if assignor is None or assignor.needs_lag:
            return None
        return {
            member_id: {topic_id: frozenset(partitions) for topic_id, partitions in topics.items()}
            for member_id, topics in assignor.assign(spec).items()
        }
