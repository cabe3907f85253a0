from __future__ import annotations

import pytest

from ruslo.client.settings.bootstrap_servers import Address, parse_bootstrap
from ruslo.model.errors import ConfigError


def test_addresses_keep_their_order_without_duplicates() -> None:
    assert parse_bootstrap("a:1, b:2,,a:1,[::1]:3") == [Address("a", 1), Address("b", 2), Address("::1", 3)]
    assert str(Address("::1", 3)) == "[::1]:3"


@pytest.mark.parametrize(
    "text", ["", " , ", "host", "host:", ":9092", "host:x", "host:0", "host:65536", "::1:9092", "http://a:1"]
)
def test_invalid_addresses(text: str) -> None:
    with pytest.raises(ConfigError, match=r"bootstrap\.servers"):
        parse_bootstrap(text)


def test_a_url_is_not_parsed_as_an_ipv6_address() -> None:
    with pytest.raises(ConfigError, match="write HOST:PORT"):
        parse_bootstrap("PLAINTEXT://broker:9092")
