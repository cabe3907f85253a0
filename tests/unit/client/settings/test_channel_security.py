"""The security settings of our own connections."""

from __future__ import annotations

import ssl

import pytest

from ruslo.client.settings.channel_security import channel_security
from ruslo.model.errors import ConfigError

KEY = "ssl.endpoint.identification.algorithm"


def context(**settings: str) -> ssl.SSLContext:
    security = channel_security({"security.protocol": "SSL", **settings})
    assert security.context is not None
    return security.context()


@pytest.mark.parametrize("algorithm", ["https", "HTTPS"])
def test_host_names_are_verified_by_https_in_any_case(algorithm: str) -> None:
    assert context().check_hostname
    assert context(**{KEY: algorithm}).check_hostname


@pytest.mark.parametrize("algorithm", ["", "none"])
def test_an_empty_algorithm_accepts_any_host_but_only_trusted_certificates(algorithm: str) -> None:
    made = context(**{KEY: algorithm})
    assert not made.check_hostname
    assert made.verify_mode is ssl.CERT_REQUIRED


def test_an_unknown_algorithm_is_refused() -> None:
    with pytest.raises(ConfigError, match="LDAPS"):
        context(**{KEY: "LDAPS"})
