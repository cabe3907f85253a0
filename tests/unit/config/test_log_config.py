from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest

from ruslo.config.log_config import LogConfig, apply_topic_overrides


def test_policies() -> None:
    default = LogConfig()
    assert (default.deletes, default.compacts) == (True, False)
    both = replace(default, cleanup_policy=("compact", "delete"))
    assert (both.deletes, both.compacts) == (True, True)
    neither = replace(default, cleanup_policy=())
    assert (neither.deletes, neither.compacts) == (False, False)


def test_settings_cannot_be_changed_in_place() -> None:
    with pytest.raises(FrozenInstanceError):
        LogConfig().segment_bytes = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("overrides", "segment_bytes"), [({"internal.segment.bytes": "1000"}, 1000), ({}, 1048576)]
)
def test_internal_segment_size_takes_the_place_of_the_public_one(
    overrides: dict[str, str], segment_bytes: int
) -> None:
    config = apply_topic_overrides(LogConfig(), {"segment.bytes": "1048576", **overrides})
    assert config.segment_bytes == segment_bytes
