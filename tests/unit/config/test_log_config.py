from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest

from ruslo.config.log_config import LogConfig


def test_policies() -> None:
    default = LogConfig()
    assert (default.deletes, default.compacts) == (True, False)
    both = replace(default, cleanup_policy=frozenset({"compact", "delete"}))
    assert (both.deletes, both.compacts) == (True, True)
    neither = replace(default, cleanup_policy=frozenset())
    assert (neither.deletes, neither.compacts) == (False, False)


def test_stored_codec_and_clock() -> None:
    assert LogConfig().recompresses_to is None
    assert replace(LogConfig(), compression_type="zstd").recompresses_to == "zstd"
    assert not LogConfig().uses_log_append_time
    assert replace(LogConfig(), message_timestamp_type="LogAppendTime").uses_log_append_time


def test_settings_cannot_be_changed_in_place() -> None:
    with pytest.raises(FrozenInstanceError):
        LogConfig().segment_bytes = 1  # type: ignore[misc]
