from __future__ import annotations

import pytest

from ruslo.config.definition import InvalidConfig
from ruslo.config.listeners import (
    Endpoint,
    HostPort,
    parse_host_port,
    parse_listener,
    parse_listeners,
    parse_protocol_map,
    parse_voters,
    with_reachable_host,
)

PROTOCOLS = {"PLAINTEXT": "PLAINTEXT", "INNER": "SSL"}


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("PLAINTEXT://:9092", ("PLAINTEXT", "", 9092)),
        ("plaintext://host:9092", ("PLAINTEXT", "host", 9092)),
        ("PLAINTEXT://[::1]:9092", ("PLAINTEXT", "::1", 9092)),
        ("PLAINTEXT://::1:9092", ("PLAINTEXT", "::1", 9092)),
        ("PLAINTEXT://0.0.0.0:0", ("PLAINTEXT", "0.0.0.0", 0)),
        ("PLAINTEXT://host", None),
        ("PLAINTEXT:9092", None),
        ("://host:9092", None),
        ("PLAINTEXT://host:65536", None),
        ("PLAINTEXT://ho st:1", None),
        ("PLAINTEXT://[::1:9092", None),
    ],
)
def test_parse_listener(text: str, parts: tuple[str, str, int] | None) -> None:
    assert parse_listener(text) == parts


def test_endpoints_know_their_protocol_and_print_as_written() -> None:
    endpoints = parse_listeners("listeners", ["PLAINTEXT://[::1]:1", "INNER://h:2"], PROTOCOLS)
    assert endpoints == (Endpoint("PLAINTEXT", "PLAINTEXT", "::1", 1), Endpoint("INNER", "SSL", "h", 2))
    assert [str(endpoint) for endpoint in endpoints] == ["PLAINTEXT://[::1]:1", "INNER://h:2"]


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (["nonsense"], r"listeners=nonsense: .* Write it as NAME://host:port"),
        (["OTHER://:1"], r"listener OTHER has no security protocol. Add OTHER:PLAINTEXT"),
        (["INNER://:1", "inner://:2"], "listener INNER is listed twice"),
        (["INNER://:1", "PLAINTEXT://:1"], "port 1 is used by more than one listener"),
        (["INNER://127.0.0.1:1", "PLAINTEXT://127.0.0.2:1"], "port 1 is used"),
    ],
)
def test_invalid_listeners_are_rejected(entries: list[str], message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        parse_listeners("listeners", entries, PROTOCOLS)


@pytest.mark.parametrize(
    "entries", [["INNER://:0", "PLAINTEXT://:0"], ["INNER://127.0.0.1:1", "PLAINTEXT://[::1]:1"]]
)
def test_ports_that_can_be_shared(entries: list[str]) -> None:
    assert len(parse_listeners("listeners", entries, PROTOCOLS)) == 2


def test_the_protocol_map() -> None:
    assert parse_protocol_map("k", " a : ssl , B:PLAINTEXT,") == {"A": "SSL", "B": "PLAINTEXT"}
    for text in ("A", "A:TELNET", ":SSL"):
        with pytest.raises(InvalidConfig, match="Write NAME:PROTOCOL"):
            parse_protocol_map("k", text)


def test_voters_and_servers() -> None:
    assert parse_voters(["1@a:9093", "2@[::1]:9094"]) == {1: HostPort("a", 9093), 2: HostPort("::1", 9094)}
    assert parse_host_port("CONTROLLER://a:1") == HostPort("a", 1)


def test_advertised_host_and_port() -> None:
    listening = Endpoint("PLAINTEXT", "PLAINTEXT", "", 0)
    reachable = with_reachable_host(listening, {"PLAINTEXT": 34567})
    assert reachable.host
    assert reachable.port == 34567
    fixed = Endpoint("PLAINTEXT", "PLAINTEXT", "h", 1)
    assert with_reachable_host(fixed, {"PLAINTEXT": 34567}) == fixed
