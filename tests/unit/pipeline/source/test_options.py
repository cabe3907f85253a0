from __future__ import annotations

import pickle

import pytest

from ruslo.model.errors import ConfigError
from ruslo.model.topics import TopicPartition
from ruslo.pipeline.source.options import Payload, SourceOptions
from ruslo.pipeline.source.positions import EARLIEST, LATEST
from ruslo.pipeline.source.schema import schema_ddl

REQUIRED = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}


def parse(streaming: bool | None = False, /, **options: str) -> SourceOptions:
    return SourceOptions.parse({**REQUIRED, **options}, streaming=streaming)


def test_the_defaults_are_those_of_sparks_connector_except_isolation() -> None:
    batch, stream = parse(False), parse(True)
    assert (batch.starting.everywhere, batch.ending.everywhere) == (EARLIEST, LATEST)
    assert stream.starting.everywhere == LATEST
    assert batch.fail_on_data_loss
    assert batch.read_committed
    assert batch.scan == "wire"
    assert batch.columns == ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")


def test_options_can_be_pickled() -> None:
    options = parse(startingOffsets='{"orders": {"0": 5}}', maxOffsetsPerTopic='{"orders": 5}')
    assert pickle.loads(pickle.dumps(options)) == options


def test_isolation_by_either_name() -> None:
    assert not parse(isolation="read_uncommitted").read_committed
    assert not parse(**{"kafka.isolation.level": "read_uncommitted"}).read_committed
    with pytest.raises(ConfigError, match="isolation"):
        parse(**{"kafka.isolation.level": "serializable"})


def test_the_group_by_either_name() -> None:
    assert parse(**{"group.id": "g"}).group_id == "g"
    assert parse(**{"kafka.group.id": "g"}).group_id == "g"


def test_columns() -> None:
    assert parse(columns="value, offset").columns == ("value", "offset")
    assert parse(columns="headers").columns == ("headers",)
    assert parse(includeHeaders="true").columns[-1] == "headers"
    assert parse(onDecodeError="column", valueFormat="string").columns[-1] == "decodeError"
    for invalid, problem in (("nope", "unknown column 'nope'"), ("key,KEY", "twice")):
        with pytest.raises(ConfigError, match=problem):
            parse(columns=invalid)


def test_the_schema_has_the_selected_columns() -> None:
    assert schema_ddl(parse(None)) == (
        "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
        "timestampType INT"
    )
    json = parse(None, columns="value", valueFormat="json", valueSchema="id INT, at TIMESTAMP")
    assert schema_ddl(json) == "value STRUCT<id INT, at TIMESTAMP>"
    array = parse(None, columns="value", valueFormat="json", valueSchema="ARRAY<INT>")
    assert schema_ddl(array) == "value ARRAY<INT>"
    avro = parse(None, columns="key", keyFormat="avro", keySchema='"long"')
    assert schema_ddl(avro) == "key BIGINT"
    assert schema_ddl(parse(None, columns="key", keyFormat="string")) == "key STRING"


def test_payloads() -> None:
    assert parse(valueFormat="JSON", valueSchema="id INT").value == Payload("json", "id INT")
    assert parse(keyFormat="string").key == Payload("string")


@pytest.mark.parametrize(
    ("streaming", "options", "problem"),
    [
        (False, {"subscribePattern": "o.*"}, "exclude each other"),
        (False, {"startingOffset": "earliest"}, "Did you mean 'startingOffsets'"),
        (False, {"startingOffsets": "latest"}, "latest.*in a batch query"),
        (False, {"startingOffsets": '{"orders": {"0": -1}}'}, "latest.*in a batch query"),
        (False, {"endingOffsets": "earliest"}, "earliest"),
        (False, {"startingOffsets": "first"}, "write it as JSON, such as"),
        (False, {"startingOffsets": '{"orders": {"0": -3}}'}, "-2 for earliest"),
        (False, {"startingTimestamp": '{"orders": {"0": -3}}'}, "milliseconds since 1970"),
        (True, {"endingOffsets": "latest"}, "a streaming query has no end"),
        (True, {"endingTimestamp": "5"}, "a streaming query has no end"),
        (True, {"maxOffsetsPerTrigger": "0"}, "1 or more"),
        (True, {"minOffsetsPerTrigger": "10", "maxOffsetsPerTrigger": "5"}, "is above"),
        (False, {"scan": "fast"}, "use wire or direct"),
        (False, {"valueFormat": "json"}, "set valueSchema"),
        (False, {"valueSchema": "id INT"}, "binary has no schema"),
        (False, {"onDecodeError": "deadletter"}, "set deadLetterTopic"),
        (False, {"deadLetterTopic": "d"}, "set onDecodeError=deadletter as well"),
        (True, {"stagingPath": "/s", "sinkName": "a"}, "together with onDecodeError=deadletter"),
        (False, {"onDecodeError": "deadletter", "deadLetterTopic": "a b"}, "characters other than"),
        (False, {"subscribe": " , "}, "subscribe is empty"),
        (False, {"subscribe": "a/b"}, "characters other than"),
    ],
)
def test_invalid_options_are_rejected(streaming: bool, options: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        parse(streaming, **options)


def test_positions_by_partition_and_by_time() -> None:
    options = parse(startingOffsets='{"orders": {"0": 5, "1": -2}}', endingTimestamp="1000")
    assert options.starting.by_partition == {TopicPartition("orders", 0): 5, TopicPartition("orders", 1): -2}
    assert options.ending.are_times
    assert options.ending.everywhere == 1000
    by_time = parse(startingOffsetsByTimestamp='{"orders": {"0": 5}}', startingOffsets="earliest").starting
    assert by_time.are_times
    assert not by_time.latest_when_too_young
    late = parse(startingTimestamp="5", startingOffsetsByTimestampStrategy="latest").starting
    assert late.latest_when_too_young


def test_every_partition_must_have_a_position() -> None:
    positions = parse(startingOffsets='{"orders": {"0": 5}}').starting
    assert positions.of([TopicPartition("orders", 0)]) == {TopicPartition("orders", 0): 5}
    with pytest.raises(ConfigError, match="does not name orders-1"):
        positions.of([TopicPartition("orders", 0), TopicPartition("orders", 1)])
    with pytest.raises(ConfigError, match="names orders-0, which the query does not read"):
        positions.of([])
