from __future__ import annotations

import click
import pytest

from ruslo.cli.cluster.reassign.throttle import (
    FOLLOWER_REPLICAS,
    LEADER_REPLICAS,
    Move,
    rate_callback,
    throttled_replicas,
)
from ruslo.model.topics import TopicPartition


def parsed(text: str | None) -> int | None:
    return rate_callback(click.Context(click.Command("x")), click.Option(["--throttle"]), text)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        (None, None),
        ("1000", 1000),
        ("50MB", 50_000_000),
        ("50 mb/s", 50_000_000),
        ("10MiB", 10 * 1024 * 1024),
        ("2k", 2000),
        ("1GB", 1_000_000_000),
    ],
)
def test_rates(text: str | None, rate: int | None) -> None:
    assert parsed(text) == rate


@pytest.mark.parametrize("text", ["", "fast", "0", "-5", "1.5MB", "5XB"])
def test_invalid_rates(text: str) -> None:
    with pytest.raises(click.BadParameter, match="Invalid rate"):
        parsed(text)


def test_old_replicas_are_throttled_as_leaders_and_new_ones_as_followers() -> None:
    moves = {
        TopicPartition("a", 1): Move((1, 2), (2, 3)),
        TopicPartition("a", 0): Move((1,), (3,)),
        TopicPartition("b", 0): Move((1, 2), (2, 1)),
    }
    assert throttled_replicas(moves) == {
        "a": {LEADER_REPLICAS: "0:1,1:1,1:2", FOLLOWER_REPLICAS: "0:3,1:3"}
    }, "topic b only changes its order, so no replica is copied"
