from __future__ import annotations

import pytest

from ruslo.net.host_lookup import is_address, look_up


@pytest.mark.parametrize(("host", "expected"), [("10.0.0.1", True), ("::1", True), ("localhost", False)])
def test_addresses_need_no_lookup(host: str, expected: bool) -> None:
    assert is_address(host) is expected


async def test_names_have_addresses_and_impossible_names_have_none() -> None:
    hosts = ["10.0.0.1", "2001:db8:0:0::1", "localhost", "not a host name", "x" * 300, "bad\x00name", ""]
    found = await look_up(hosts, timeout_s=30)
    assert list(found) == hosts
    assert (found["10.0.0.1"], found["2001:db8:0:0::1"]) == (["10.0.0.1"], ["2001:db8::1"])
    assert set(found["localhost"]) <= {"127.0.0.1", "::1"}
    assert found["localhost"]
    assert found["not a host name"] == found["x" * 300] == found["bad\x00name"] == []


async def test_names_that_are_not_found_in_time_have_no_addresses() -> None:
    assert await look_up(["localhost"], timeout_s=0) == {"localhost": []}


async def test_no_names_need_no_time() -> None:
    assert await look_up([], timeout_s=0) == {}
