"""Uuids in Kafka's notation."""

from __future__ import annotations

import pytest

from ruslo.model.ids import METADATA_TOPIC_ID, ZERO_UUID, random_uuid, uuid_from_text, uuid_to_text


def test_text_round_trips() -> None:
    assert uuid_to_text(ZERO_UUID) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert uuid_to_text(METADATA_TOPIC_ID) == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert uuid_from_text("AAAAAAAAAAAAAAAAAAAAAQ") == METADATA_TOPIC_ID


@pytest.mark.parametrize(
    "text", ["", "AAAA", "A" * 21, "A" * 23, "!" * 22, "AAAAAAAAAAAAAAAAAAAAAB", "A" * 20 + "=="]
)
def test_invalid_uuids_raise(text: str) -> None:
    with pytest.raises(ValueError, match=r"uuid|base64|Only"):
        uuid_from_text(text)


def test_random_ids_can_be_command_line_arguments() -> None:
    made = [random_uuid() for _ in range(500)]
    assert len(set(made)) == 500
    for value in made:
        assert uuid_from_text(uuid_to_text(value)) == value
        assert not uuid_to_text(value).startswith("-")
        assert value[6] >> 4 == 4
