from __future__ import annotations

from pathlib import Path

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
        ({"bootstrap.servers": "a:1", "security.protocol": "SASL"}, "security.protocol"),
        ({"bootstrap.servers": "a:1", "sasl.mechanisn": "PLAIN"}, "no such security setting"),
        ({"bootstrap.servers": "a:1", "ssl.provider": "x"}, "names a Java class"),
    ],
)
def test_invalid_properties_are_rejected(properties: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        parse_client_properties(properties)


def test_a_password_may_be_a_reference(tmp_path: Path) -> None:
    secrets = tmp_path / "secrets.properties"
    secrets.write_text("password=s3cret\n")
    properties = {
        "bootstrap.servers": "a:1",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": f"${{file:{secrets}:password}}",
    }
    client = parse_client_properties(properties)
    assert dict(client.security)["sasl.password"].reveal() == "s3cret"
    assert "s3cret" not in repr(client)
    with pytest.raises(ConfigError, match="NOT_SET"):
        parse_client_properties({**properties, "sasl.password": "${env:NOT_SET}"})
