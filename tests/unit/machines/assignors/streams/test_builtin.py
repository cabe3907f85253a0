"""The task assignors that brokers know by name."""

from __future__ import annotations

from ruslo.machines.assignors.streams.builtin import BUILTIN_TASK_ASSIGNORS


def test_names_are_those_of_kafkas_documentation() -> None:
    assert list(BUILTIN_TASK_ASSIGNORS) == ["sticky", "highly_available"]
    assert all(assignor.name == name for name, assignor in BUILTIN_TASK_ASSIGNORS.items())
