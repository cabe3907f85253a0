"""The built-in assignors by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ruslo.machines.assignors.lag_aware import LagAwareAssignor
from ruslo.machines.assignors.rack_aware import RackAwareAssignor
from ruslo.machines.assignors.range import RangeAssignor
from ruslo.machines.assignors.spec import Assignor
from ruslo.machines.assignors.uniform import UniformAssignor
from ruslo.machines.assignors.weighted import WeightedAssignor

_ALL: tuple[Assignor, ...] = (
    UniformAssignor(),
    RangeAssignor(),
    RackAwareAssignor(),
    LagAwareAssignor(),
    WeightedAssignor(),
)
BUILTIN_ASSIGNORS: Mapping[str, Assignor] = MappingProxyType({assignor.name: assignor for assignor in _ALL})
