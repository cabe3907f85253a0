from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest

from ruslo.config.log_config import LogConfig


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
