from __future__ import annotations

import itertools
import json

from ruslo.cli.demo_events import FLEET, ORDERS, PAYMENTS, EventSource, summarize


def test_a_seed_gives_the_same_events() -> None:
    first, second = (list(itertools.islice(EventSource(seed=3), 50)) for _ in range(2))
    assert first == second
    assert first != list(itertools.islice(EventSource(seed=4), 50))


def test_events_are_keyed_json_and_payments_follow_their_orders() -> None:
    totals: dict[str, int] = {}
    topics = set()
    for event in itertools.islice(EventSource(seed=1), 1000):
        topics.add(event.topic)
        fields = json.loads(event.value)
        assert event.key == (fields["van"] if event.topic == FLEET else fields["order_id"])
        assert summarize(event.value).startswith(event.key)
        if event.topic == ORDERS:
            totals[event.key] = fields["total_cents"]
            assert fields["total_cents"] == sum(
                line["price_cents"] * line["quantity"] for line in fields["lines"]
            )
        elif event.topic == PAYMENTS:
            assert fields["amount_cents"] == totals[event.key]
    assert topics == {ORDERS, PAYMENTS, FLEET}
