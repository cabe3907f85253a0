from __future__ import annotations

import pytest

from ruslo.model.client_match import ClientMatch


def test_all_patterns_must_match_whole_values() -> None:
    match = ClientMatch(["client_id = order.*", "client_source_port=[0-9]+"])
    assert match.matches({"client_id": "orders", "client_source_port": "9000"})
    assert not match.matches({"client_id": "my-orders", "client_source_port": "9000"})
    assert not match.matches({"client_id": "orders"})
    assert not ClientMatch(["client_id=.*"]).matches({"client_id": ""})
    assert not ClientMatch(["client_id=.*"]).matches({"client_id": "\ud800"})
    assert ClientMatch([]).matches({})


def test_hostile_client_ids_are_matched_in_linear_time() -> None:
    assert not ClientMatch(["client_id=(a+)+b"]).matches({"client_id": "a" * 30_000})


@pytest.mark.parametrize(
    "pattern", ["client_id", "client_id=", "=x", "colour=red", "client_id=(", "client_id=a=b", ""]
)
def test_invalid_patterns(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        ClientMatch([pattern])
