"""The feature levels a new cluster starts with."""

from __future__ import annotations

import pytest

from ruslo.broker.node.bootstrap_features import feature_records, initial_features
from ruslo.model.errors import ConfigError


def test_older_releases_have_fewer_features() -> None:
    assert initial_features("3.7-IV4", (), dynamic_quorum=False) == {
        "metadata.version": 19,
        "eligible.leader.replicas.version": 0,
        "group.version": 0,
        "share.version": 0,
        "streams.version": 0,
        "transaction.version": 0,
    }
    assert initial_features("4.0", (), dynamic_quorum=False) == {
        "metadata.version": 25,
        "eligible.leader.replicas.version": 0,
        "group.version": 1,
        "share.version": 0,
        "streams.version": 0,
        "transaction.version": 2,
    }


def test_requested_levels() -> None:
    levels = initial_features(None, [("share.version", 0), ("kraft.version", 1)], dynamic_quorum=True)
    assert levels["share.version"] == 0
    assert "kraft.version" not in levels
    assert [record.name for record, _ in feature_records(levels)] == [  # type: ignore[attr-defined]
        "metadata.version",
        "eligible.leader.replicas.version",
        "group.version",
        "streams.version",
        "transaction.version",
    ]


@pytest.mark.parametrize(
    ("release", "requested", "dynamic", "problem"),
    [
        ("9.9", [], False, "Unknown release version"),
        ("4.3", [("metadata.version", 30)], False, "Give one"),
        (None, [("metadata.version", 31)], False, "Choose one from 7 to 30"),
        ("4.4", [], False, "Unknown release version"),
        (None, [("metadata.version", 6)], False, "Choose one from 7 to 30"),
        (None, [("share.version", 2)], False, "newest level is 1"),
        (None, [("unheard.of", 1)], False, "Unknown feature unheard.of"),
        (None, [("share.version", 1), ("share.version", 0)], False, "given twice"),
        (None, [("kraft.version", 2)], True, "newest is 1"),
        (None, [("kraft.version", 0)], True, "controller.quorum.voters"),
        (None, [("kraft.version", 1)], False, "--standalone"),
        ("3.7", [("eligible.leader.replicas.version", 1)], False, "needs metadata.version 23"),
    ],
)
def test_invalid_levels_are_rejected(
    release: str | None, requested: list[tuple[str, int]], dynamic: bool, problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        initial_features(release, requested, dynamic_quorum=dynamic)


def test_unstable_level_may_be_requested_where_it_is_enabled() -> None:
    requested = [("metadata.version", 31)]
    levels = initial_features(None, requested, dynamic_quorum=True, unstable=True)
    newest = initial_features(None, (), dynamic_quorum=True, unstable=True)
    assert levels == newest | {"metadata.version": 31}
    assert newest["metadata.version"] == 30
