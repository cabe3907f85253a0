from __future__ import annotations

from pathlib import Path

import pytest

from codegen import usage
from codegen.notation import load_messages
from codegen.usage import used_messages
from ruslo.broker.dispatch.api_table import CONTROLLER_HANDLERS, HANDLERS


def test_every_served_api_has_modules() -> None:
    used = {message.name for message in used_messages(load_messages())}
    for name in ("Produce", "Fetch", *HANDLERS, *CONTROLLER_HANDLERS):
        assert {f"{name}Request", f"{name}Response"} <= used


def test_a_message_is_used_if_it_or_the_other_half_of_its_pair_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "messages").mkdir()
    (tmp_path / "messages" / "generated.py").write_text("from ruslo.protocol.messages.unused import x\n")
    (tmp_path / "one.py").write_text("from ruslo.protocol.messages.vote_request import VoteRequest\n")
    (tmp_path / "two.py").write_text(
        "from ruslo.protocol.messages import (\n    voters_record,\n    group_metadata_key as key,\n)\n"
    )
    monkeypatch.setattr(usage, "SOURCE_DIR", tmp_path)
    used = [message for message in used_messages(load_messages()) if message.kind != "metadata"]
    assert [message.name for message in used] == [
        "GroupMetadataKey",
        "GroupMetadataValue",
        "VoteRequest",
        "VoteResponse",
        "VotersRecord",
    ]


def test_metadata_records_are_always_used() -> None:
    messages = load_messages()
    assert {m.name for m in messages if m.kind == "metadata"} <= {m.name for m in used_messages(messages)}
