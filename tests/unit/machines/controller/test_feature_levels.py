"""The levels of features: those of a release, their dependencies, and metadata.version by its name."""

from __future__ import annotations

import pytest

from ruslo.machines.controller.feature_levels import (
    can_downgrade_metadata,
    dependencies_of,
    levels_of_release,
    metadata_version_of,
    missing_dependency,
    parse_feature,
)
from ruslo.model.errors import ConfigError

ELR = "eligible.leader.replicas.version"


def test_release_without_a_step_is_its_last_one() -> None:
    assert metadata_version_of("3.7") == 19
    assert metadata_version_of("3.7-IV0") == 15
    assert metadata_version_of("4.3") == metadata_version_of("4.3.1") == 30
    for unknown in ("4", "9.9", "4.3-IV9", ""):
        with pytest.raises(ConfigError, match="Unknown release version"):
            metadata_version_of(unknown)


def test_feature_is_written_as_name_and_level() -> None:
    assert parse_feature("transaction.version=2") == ("transaction.version", 2)
    assert parse_feature(" transaction.version = 2 ") == ("transaction.version", 2)
    for text in ("transaction.version", "transaction.version=", "transaction.version=-1"):
        with pytest.raises(ConfigError, match="Write name=level"):
            parse_feature(text)


def test_a_release_sets_what_it_brought() -> None:
    assert levels_of_release(20) == {
        "metadata.version": 20,
        "kraft.version": 0,
        "transaction.version": 0,
        "group.version": 0,
        ELR: 0,
        "share.version": 0,
        "streams.version": 0,
    }
    assert [*levels_of_release(30).values()] == [30, 1, 2, 1, 1, 1, 1]


def test_eligible_leader_replicas_need_a_metadata_version() -> None:
    assert dependencies_of(ELR, 1) == {"metadata.version": 23}
    assert missing_dependency(ELR, 1, {"metadata.version": 22}) == ("metadata.version", 23)
    assert missing_dependency(ELR, 1, {"metadata.version": 23}) is None
    assert missing_dependency(ELR, 0, {}) is None
    assert dependencies_of("metadata.version", 7) == {}
    for name, level in ((ELR, 2), ("metadata.version", 6), ("moon.phase", 1)):
        with pytest.raises(ConfigError):
            dependencies_of(name, level)


@pytest.mark.parametrize(
    ("current", "target", "possible"),
    [(30, 29, False), (29, 24, True), (29, 23, True), (23, 22, False), (22, 17, True), (17, 16, False)],
)
def test_metadata_goes_back_if_the_records_are_the_same(current: int, target: int, possible: bool) -> None:
    assert can_downgrade_metadata(current, target) is possible
