from __future__ import annotations

import json

import pytest

from ruslo.model.errors import ConfigError
from ruslo.model.ids import ZERO_UUID, uuid_to_text
from ruslo.model.topics import TopicPartition
from ruslo.pipeline.source.offsets import SourceOffsets

ID = bytes(range(16))


def test_the_json_is_sorted() -> None:
    offsets = {TopicPartition("b", 0): 3, TopicPartition("a", 10): 2, TopicPartition("a", 2): 1}
    found = SourceOffsets({"b": ZERO_UUID, "a": ID}, offsets)
    text = json.dumps(found.to_json())
    assert text == (
        f'{{"a": {{"id": "{uuid_to_text(ID)}", "offsets": {{"2": 1, "10": 2}}}}, '
        '"b": {"id": "", "offsets": {"0": 3}}}'
    )
    assert json.dumps(SourceOffsets.from_json(json.loads(text)).to_json()) == text
    assert SourceOffsets.from_json(text) == SourceOffsets.from_json(json.loads(text))


def test_topics_are_compared_by_id() -> None:
    one = SourceOffsets({"a": ID}, {})
    assert one.same_topic("a", SourceOffsets({"a": ID}, {}))
    assert not one.same_topic("a", SourceOffsets({"a": bytes(reversed(ID))}, {}))
    assert one.same_topic("a", SourceOffsets({"a": ZERO_UUID}, {}))


@pytest.mark.parametrize("value", [{"t": {"0": 5}}, {"t": 5}, [], {"t": {"id": "short", "offsets": {}}}])
def test_offsets_of_another_source_are_rejected(value: object) -> None:
    with pytest.raises(ConfigError, match="offsets of another source"):
        SourceOffsets.from_json(value)
