from __future__ import annotations

import itertools
import json

from ruslo.cli.demo.events import FLEET, ORDERS, PAYMENTS, Event, EventSource, order_number, summarize


def test_a_seed_gives_the_same_events() -> None:
    def events(seed: int) -> list[Event]:
        return list(itertools.islice(EventSource(seed, clock=lambda: 1.5e9), 50))

    assert events(3) == events(3)
    assert events(3) != events(4)


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


def test_last_payments_pay_every_order_once() -> None:
    source = EventSource(seed=2)
    events = [*itertools.islice(source, 500), *source.last_payments()]
    numbers = {
        topic: [event.sale.number for event in events if event.sale is not None and event.topic == topic]
        for topic in (ORDERS, PAYMENTS)
    }
    assert numbers[ORDERS] == list(range(len(numbers[ORDERS])))
    assert sorted(numbers[PAYMENTS]) == numbers[ORDERS]
    assert all(order_number(event.key) == event.sale.number for event in events if event.sale is not None)
