"""The audit log keeps its size although clients choose what is in it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from ruslo.broker.security.audit_log import AuditLog
from ruslo.model.clock import SystemClock
from ruslo.model.principals import ANONYMOUS
from ruslo.net.connection import Connection


def test_long_texts_are_shortened_and_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    audit = AuditLog(str(path), SystemClock(), 1)
    client = cast(Connection, SimpleNamespace(principal=ANONYMOUS, peer_host="10.0.0.1"))
    for number in range(3):
        audit.login_failed(client, "OAUTHBEARER", f"{number}" + "A" * 300_000)
        audit.login_failed(client, "OAUTHBEARER", f"{number}" + "A" * 300_000)
    request = {"name": "short"}
    audit.changed(ANONYMOUS, "10.0.0.1", None, "CreateTopics", request, [])
    audit.close()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["event"] for line in lines] == ["login failed"] * 3 + ["change"]
    assert all(line["reason"].endswith("… (300001 characters)") for line in lines[:3])
    assert path.stat().st_size < 5_000
    assert max(map(len, audit._throttle._silenced)) < 100
