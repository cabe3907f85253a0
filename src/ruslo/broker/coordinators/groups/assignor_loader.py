"""The assignors that ``group.consumer.assignors`` names: Ruslo's own, and users' from installed packages.

A package offers one by an entry point of the group ``ruslo.assignors``; it points to a class without
arguments, or to an object, that has what ``machines.assignors.spec.Assignor`` asks for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points

from ruslo.machines.assignors.builtin import BUILTIN_ASSIGNORS
from ruslo.machines.assignors.spec import Assignment, Assignor, GroupSpec
from ruslo.model.errors import ConfigError

ENTRY_POINTS = "ruslo.assignors"
KEY = "group.consumer.assignors"

_KAFKA_CLASSES = {
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
}
"""Property files of Kafka may name its two by class."""


@dataclass(frozen=True, slots=True)
class UserAssignor:
    """A user's object under the name that members call it by."""

    name: str
    needs_lag: bool
    inner: Assignor

    def assign(self, group: GroupSpec) -> Assignment:
        return self.inner.assign(group)


def assignor_names(configured: Iterable[str]) -> tuple[str, ...]:
    """As members call them."""
    return tuple(_KAFKA_CLASSES.get(name, name) for name in configured)


def load_assignors(configured: Iterable[str]) -> dict[str, Assignor]:
    """By name. Raises ConfigError for one that cannot be had: a group must not wait for it in vain."""
    found: dict[str, Assignor] = {}
    offered: Mapping[str, EntryPoint] | None = None
    for name in assignor_names(configured):
        builtin = BUILTIN_ASSIGNORS.get(name)
        if builtin is not None:
            found[name] = builtin
            continue
        if offered is None:
            offered = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
        if name not in offered:
            known = ", ".join([*BUILTIN_ASSIGNORS, *offered])
            raise ConfigError(
                f"{KEY} names {name!r}, which no installed package offers: use one of {known}, or install "
                f"the package that has {name!r} among its {ENTRY_POINTS!r} entry points"
            )
        found[name] = _load(name, offered[name])
    return found


def _load(name: str, point: EntryPoint) -> Assignor:
    try:
        loaded = point.load()
        inner = loaded() if isinstance(loaded, type) else loaded
    except Exception as error:
        raise ConfigError(
            f"the assignor {name!r} of {KEY} cannot be loaded from {point.value}: {error!r}"
        ) from error
    if not callable(getattr(inner, "assign", None)):
        raise ConfigError(f"the assignor {name!r} of {KEY} ({point.value}) has no method assign(group)")
    return UserAssignor(name, bool(getattr(inner, "needs_lag", True)), inner)
