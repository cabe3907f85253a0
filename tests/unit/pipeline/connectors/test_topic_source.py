from __future__ import annotations

from pathlib import Path

import pytest

from ruslo.pipeline.connectors.base import PipelineContext
from ruslo.pipeline.connectors.topic_source import TableSource, TopicSource, start_options
from ruslo.pipeline.keys.schema_text import parse_schema
from ruslo.pipeline.source.options import SourceOptions
from ruslo.pipeline.source.schema import schema_ddl

CONTEXT = PipelineContext(pipeline="p", folder=Path("/p"), bootstrap="b:1", group="g")


@pytest.mark.parametrize(
    ("start", "options"),
    [
        ("latest", {"startingOffsets": "latest"}),
        ('{"a": {"0": 5}}', {"startingOffsets": '{"a": {"0": 5}}'}),
        ("1700000000000", {"startingTimestamp": "1700000000000"}),
        ("2026-01-01T00:00:00Z", {"startingTimestamp": "1767225600000"}),
    ],
)
def test_start_positions(start: str, options: dict[str, str]) -> None:
    assert start_options(start) == options


def test_the_data_source_accepts_the_options() -> None:
    source = TopicSource(
        topic=("a", "b"),
        schema="id INT",
        max_records_per_batch=5,
        headers=True,
        options={"minPartitions": "3"},
    )
    parsed = SourceOptions.parse(source._options(CONTEXT), streaming=True)
    assert (parsed.group_id, parsed.min_partitions, parsed.value.format) == ("g", 3, "json")
    assert "headers" in parsed.columns


def test_a_member_of_a_share_group_has_its_options_and_column() -> None:
    source = TopicSource(topic=("a",), schema="n INT", share_group="workers", headers=True)
    parsed = SourceOptions.parse(source._options(CONTEXT), streaming=True)
    assert parsed.share is not None
    assert (parsed.share.group_id, parsed.group_id) == ("workers", None)
    given = parse_schema(schema_ddl(parsed)).fields
    declared = parse_schema(source.columns() or "").fields
    assert (declared["_delivery_count"], declared["_headers"]) == (given["delivery_count"], given["headers"])
    assert list(source.problems()) == []


def test_keys_that_a_member_of_a_share_group_cannot_have() -> None:
    source = TopicSource(
        pattern="a.*", value="string", share_group="workers", start="latest", scan="direct", group="g"
    )
    assert [problem.key for problem in source.problems()] == ["pattern", "start", "group", "scan"]


def test_a_source_uses_the_dead_letter_topic_of_the_pipeline_by_default() -> None:
    context = PipelineContext(pipeline="p", folder=Path("/p"), bootstrap="b:1", dead_letters="dead")
    by_pipeline = TopicSource(topic=("a",), schema="id INT")._options(context)
    assert (by_pipeline["onDecodeError"], by_pipeline["deadLetterTopic"]) == ("deadletter", "dead")
    own = TopicSource(topic=("a",), schema="id INT", on_decode_error="drop")._options(context)
    assert own["onDecodeError"] == "drop"
    assert "deadLetterTopic" not in own


def test_columns_are_the_fields_of_the_value_and_those_of_the_record() -> None:
    table = TableSource(topic="t", schema="name STRING, n INT", key="binary")
    assert list(parse_schema(table.columns() or "").fields) == [
        "name", "n", "_key", "_topic", "_partition", "_offset", "_timestamp",
    ]  # fmt: skip
    assert TopicSource(topic=("a",), value="avro", avro_schema="{}").columns() is None


def test_declared_columns_have_the_types_of_the_data_source() -> None:
    source = TopicSource(topic=("a",), schema="n INT", headers=True, on_decode_error="column")
    given = parse_schema(schema_ddl(SourceOptions.parse(source._options(CONTEXT), streaming=True))).fields
    declared = parse_schema(source.columns() or "").fields
    assert (declared["_headers"], declared["_error"]) == (given["headers"], given["decodeError"])
