from __future__ import annotations

import socket
from pathlib import Path

import pytest

from ruslo.cli.serve.service_manager import READY, notify


@pytest.mark.parametrize("abstract", [False, True])
def test_the_state_is_sent_to_the_service_manager(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, abstract: bool
) -> None:
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0{path}" if abstract else path)
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{path}" if abstract else path)
        notify(READY)
        assert manager.recv(100) == b"READY=1"


def test_nothing_is_sent_without_a_service_manager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify(READY)
