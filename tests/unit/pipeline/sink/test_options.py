from __future__ import annotations

import pytest

from ruslo.model.errors import ConfigError
from ruslo.pipeline.sink.options import SinkOptions
from ruslo.records.compression import Codec

BASE = {"kafka.bootstrap.servers": "127.0.0.1:9092"}


def test_defaults_are_exactly_once_without_compression() -> None:
    options = SinkOptions.parse({**BASE, "topic": "t", "checkpointLocation": "/c"})
    assert (options.delivery, options.topic, options.codec, options.level) == ("exactly_once", "t", 0, None)
    assert (options.sink_name, options.is_named) == ("sink", False)
    assert options.transaction_timeout_ms is None


def test_names_are_case_insensitive() -> None:
    options = SinkOptions.parse({"KAFKA.Bootstrap.Servers": "h:1", "sinkname": "x", "STAGINGPATH": "/s"})
    assert (options.client.bootstrap, options.sink_name, options.is_named) == ("h:1", "x", True)
    assert options.staging_path == "/s"


@pytest.mark.parametrize("name", ["compression", "kafka.compression.type"])
def test_compression_by_either_name(name: str) -> None:
    options = SinkOptions.parse({**BASE, name: "zstd", "kafka.compression.zstd.level": "7"})
    assert (options.codec, options.level) == (Codec.ZSTD, 7)


@pytest.mark.parametrize("name", ["transaction.timeout.ms", "kafka.transaction.timeout.ms"])
def test_the_transaction_timeout_by_either_name(name: str) -> None:
    assert SinkOptions.parse({**BASE, name: "5000"}).transaction_timeout_ms == 5000


def test_client_properties_are_passed_on() -> None:
    options = SinkOptions.parse(
        {
            **BASE,
            "kafka.client.id": "me",
            "kafka.request.timeout.ms": "1000",
            "kafka.delivery.timeout.ms": "9000",
            "kafka.batch.size": "1000",
            "kafka.linger.ms": "5",
        }
    )
    assert (options.client.client_id, options.client.request_timeout_ms) == ("me", 1000)
    assert (options.client.api_timeout_ms, options.batch_bytes) == (9000, 1000)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"delivry": "x"}, "Did you mean 'delivery'"),
        ({"delivery": "twice"}, "exactly_once or at_least_once"),
        ({"topic": "a b"}, "topic=a b"),
        ({"sinkName": "a/b"}, "sinkName=a/b"),
        ({"deadLetterTopic": "d"}, "stagingPath and sinkName to the same values as in the source"),
        ({"compression": "brotli"}, "compression=brotli"),
        ({"stagingMemory": "much"}, "stagingMemory=much"),
        ({"transaction.timeout.ms": "0"}, "1 or more"),
        ({"kafka.acks": "1"}, "waits for all in-sync replicas"),
        ({"kafka.enable.idempotence": "false"}, "always idempotent"),
        ({"kafka.transactional.id": "x"}, "derives it from sinkName"),
        ({"kafka.batch.sice": "1"}, "Did you mean 'batch.size'"),
        ({"kafka.security.protocol": "TLS"}, "security.protocol"),
        ({"kafka.sasl.mechanisn": "PLAIN"}, "no such security setting"),
        ({"kafka.bootstrap.servers": ""}, "bootstrap.servers"),
    ],
)
def test_invalid_options_are_rejected(given: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SinkOptions.parse({**BASE, **given})
