from __future__ import annotations

import pytest

from ruslo.model.errors import ConfigError
from ruslo.pipeline.client_properties import ClientProperties, parse_client_properties


def test_properties_set_the_client_up() -> None:
    found = parse_client_properties(
        {
            "bootstrap.servers": "a:1,b:2",
            "client.id": "me",
            "request.timeout.ms": "5",
            "retry.backoff.ms": "7",
        }
    )
    assert found == ClientProperties("a:1,b:2", "me", request_timeout_ms=5, retry_backoff_ms=7)


def test_properties_of_kafka_s_consumer_that_mean_nothing_here_do_no_harm() -> None:
    found = parse_client_properties({"bootstrap.servers": "a:1", "max.poll.records": "500"})
    assert found == ClientProperties("a:1")


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ({}, "bootstrap.servers is missing"),
        ({"bootstrap.servers": "a"}, "is not HOST:PORT"),
        ({"bootstrap.servers": "a:1", "max.pol.records": "5"}, "did you mean 'max.poll.records'"),
        ({"bootstrap.servers": "a:1", "request.timeout.ms": "soon"}, "milliseconds"),
        ({"bootstrap.servers": "a:1", "security.protocol": "SASL_SSL"}, "plaintext so far"),
        ({"bootstrap.servers": "a:1", "sasl.jaas.config": "x"}, "plaintext so far"),
        ({"bootstrap.servers": "a:1", "ssl.truststore.location": "x"}, "plaintext so far"),
    ],
)
def test_what_cannot_be_honoured_is_refused(properties: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        parse_client_properties(properties)
