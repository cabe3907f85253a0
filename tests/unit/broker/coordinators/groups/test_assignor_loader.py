from __future__ import annotations

from pathlib import Path

import pytest

from ruslo.broker.coordinators.groups.assignor_loader import assignor_names, load_assignors
from ruslo.machines.assignors.builtin import BUILTIN_ASSIGNORS
from ruslo.machines.assignors.spec import GroupSpec
from ruslo.model.errors import ConfigError

MODULE = """
class Mine:
    needs_lag = False
    def assign(self, group):
        return {group.group_id: {}}

class Eager:
    def assign(self, group):
        return {}

ready_made = Eager()

class NoMethod:
    pass

class Broken:
    def __init__(self):
        raise RuntimeError("no licence")
"""
ENTRY_POINTS = """
[ruslo.assignors]
mine = users_assignors:Mine
ready = users_assignors:ready_made
empty = users_assignors:NoMethod
broken = users_assignors:Broken
missing = users_assignors:NotThere
"""


@pytest.fixture
def _package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a package with custom assignors."""
    (tmp_path / "users_assignors.py").write_text(MODULE)
    info = tmp_path / "users_assignors-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: users-assignors\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(str(tmp_path))


def test_built_in_assignors_need_no_package() -> None:
    found = load_assignors(["uniform", "range", "rack-aware", "lag-aware", "weighted"])
    assert found == dict(BUILTIN_ASSIGNORS)


def test_kafkas_class_names_map_to_ours() -> None:
    names = [
        "org.apache.kafka.coordinator.group.assignor.RangeAssignor",
        "org.apache.kafka.coordinator.group.assignor.UniformAssignor",
    ]
    assert assignor_names(names) == ("range", "uniform")
    assert list(load_assignors(names)) == ["range", "uniform"]


@pytest.mark.usefixtures("_package")
def test_custom_assignor_is_loaded_by_its_entry_point() -> None:
    found = load_assignors(["uniform", "mine", "ready"])
    assert list(found) == ["uniform", "mine", "ready"]
    mine = found["mine"]
    assert (mine.name, mine.needs_lag) == ("mine", False)
    assert mine.assign(GroupSpec("g", {}, {}, True)) == {"g": {}}
    assert found["ready"].needs_lag, "an assignor without needs_lag gets the lags"


@pytest.mark.usefixtures("_package")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("unheard-of", "no installed package provides.*Use one of uniform.*mine"),
        ("empty", "has no method assign"),
        ("broken", "no licence"),
        ("missing", "NotThere"),
    ],
)
def test_assignor_that_cannot_be_loaded_stops_the_node(name: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=f"(?s){expected}"):
        load_assignors(["uniform", name])
