from __future__ import annotations

import pytest

from ruslo.model.errors import ConfigError
from ruslo.pipeline.client_properties import ClientProperties, parse_client_properties


def test_properties_configure_the_client() -> None:
    found = parse_client_properties(
        {
            "bootstrap.servers": "a:1,b:2",
            "client.id": "me",
            "request.timeout.ms": "5",
            "retry.backoff.ms": "7",
        }
    )
    assert found == ClientProperties("a:1,b:2", "me", request_timeout_ms=5, retry_backoff_ms=7)


def test_other_consumer_properties_are_ignored() -> None:
    found = parse_client_properties({"bootstrap.servers": "a:1", "max.poll.records": "500"})
    assert found == ClientProperties("a:1")


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ({}, "bootstrap.servers is missing"),
        ({"bootstrap.servers": "a"}, "is not HOST:PORT"),
        ({"bootstrap.servers": "a:1", "max.pol.records": "5"}, "Did you mean 'max.poll.records'"),
        ({"bootstrap.servers": "a:1", "request.timeout.ms": "soon"}, "milliseconds"),
        ({"bootstrap.servers": "a:1", "security.protocol": "SASL_SSL"}, "TLS and SASL are not supported"),
        ({"bootstrap.servers": "a:1", "sasl.jaas.config": "x"}, "TLS and SASL are not supported"),
        ({"bootstrap.servers": "a:1", "ssl.truststore.location": "x"}, "TLS and SASL are not supported"),
    ],
)
def test_invalid_properties_are_rejected(properties: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        parse_client_properties(properties)
