"""The machine's access to assignors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol, TypeAlias

from ruslo.machines.assignors.builtin import BUILTIN_ASSIGNORS
from ruslo.machines.assignors.spec import Assignor, GroupSpec, Partitions


class AssignorFailure(NamedTuple):
    """An assignor returned no valid target; the group keeps its current one."""

    assignor: str
    message: str


AssignorResult: TypeAlias = Mapping[str, Partitions] | AssignorFailure
"""A target that passed ``assignors.check.checked``, or the failure."""


class AssignorPort(Protocol):
    def assign(self, name: str, spec: GroupSpec) -> AssignorResult | None:
        """Run the assignor inline; None if it must not run so: then the machine uses ``ComputeTarget``."""
        ...


class InlineAssignors:
    """The built-in assignors are fast and correct, so they run in the machine.

    Assignors that need lags do not: the driver has to collect the lags first.
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
