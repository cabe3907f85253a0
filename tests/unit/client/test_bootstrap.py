from __future__ import annotations

import socket

import pytest

from ruslo.client.bootstrap import Address, check_reachable, parse_bootstrap
from ruslo.client.errors import BrokerUnreachable
from ruslo.model.errors import ConfigError


def test_addresses_in_order_without_repetition() -> None:
    assert parse_bootstrap("a:1, b:2,,a:1,[::1]:3") == [Address("a", 1), Address("b", 2), Address("::1", 3)]
    assert str(Address("::1", 3)) == "[::1]:3"


@pytest.mark.parametrize(
    "text", ["", " , ", "host", "host:", ":9092", "host:x", "host:0", "host:65536", "::1:9092"]
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ConfigError, match=r"bootstrap\.servers"):
        parse_bootstrap(text)


def test_one_server_that_listens_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        check_reachable(f"127.0.0.1:1,127.0.0.1:{server.getsockname()[1]}")


def test_unreachable_names_every_address_and_reason() -> None:
    with pytest.raises(BrokerUnreachable) as caught:
        check_reachable("127.0.0.1:1,no-such-host.invalid:2")
    assert "127.0.0.1:1 (connection refused)" in str(caught.value)
    assert "no-such-host.invalid:2 (unknown host name)" in str(caught.value)
    assert caught.value.addresses == (("127.0.0.1", 1), ("no-such-host.invalid", 2))
