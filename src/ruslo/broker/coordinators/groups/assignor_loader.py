"""The assignors that ``group.consumer.assignors`` names: Ruslo's own, and users' from installed packages.

A package provides an assignor by an entry point of the group ``ruslo.assignors``. It points to an object that
implements ``machines.assignors.spec.Assignor``, or to a class of such objects without arguments.
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
"""Kafka's property files may name its two assignors by class."""


@dataclass(frozen=True, slots=True)
class UserAssignor:
    """A user's assignor under the name that members use."""

    name: str
    needs_lag: bool
    inner: Assignor

    def assign(self, group: GroupSpec) -> Assignment:
        return self.inner.assign(group)


def assignor_names(configured: Iterable[str]) -> tuple[str, ...]:
    """The names that members use."""
    return tuple(_KAFKA_CLASSES.get(name, name) for name in configured)


def load_assignors(configured: Iterable[str]) -> dict[str, Assignor]:
    """Assignors by name. Raises ConfigError if one cannot be loaded."""
    found: dict[str, Assignor] = {}
    provided: Mapping[str, EntryPoint] | None = None
    for name in assignor_names(configured):
        builtin = BUILTIN_ASSIGNORS.get(name)
        if builtin is not None:
            found[name] = builtin
            continue
        if provided is None:
            provided = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
        if name not in provided:
            known = ", ".join([*BUILTIN_ASSIGNORS, *provided])
            raise ConfigError(
                f"{KEY} names {name!r}, but no installed package provides this assignor. Use one of {known}, "
                f"or install the package that has {name!r} among its {ENTRY_POINTS!r} entry points."
            )
        found[name] = _load(name, provided[name])
    return found


def _load(name: str, point: EntryPoint) -> Assignor:
    try:
        loaded = point.load()
        inner = loaded() if isinstance(loaded, type) else loaded
    except Exception as error:
        raise ConfigError(
            f"Loading the assignor {name!r} of {KEY} from {point.value} failed: {error!r}"
        ) from error
    if not callable(getattr(inner, "assign", None)):
        raise ConfigError(f"The assignor {name!r} of {KEY} ({point.value}) has no method assign(group)")
    return UserAssignor(name, bool(getattr(inner, "needs_lag", True)), inner)
