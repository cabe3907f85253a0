from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from conformance.port_ranges import PORTS_PER_WORKER, lock_port_range


@pytest.fixture(autouse=True)
def _locks_of_this_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_two_workers_never_share_ports() -> None:
    with lock_port_range() as first, lock_port_range() as second:
        assert abs(first - second) >= PORTS_PER_WORKER


def test_a_range_is_free_again_when_its_worker_has_ended() -> None:
    with lock_port_range() as port:
        pass
    with lock_port_range() as again:
        assert again == port
