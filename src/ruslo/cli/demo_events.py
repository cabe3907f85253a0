"""Live events of a small delivery business: orders, their payments, and the vans that bring them."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

ORDERS = "demo.orders"
PAYMENTS = "demo.payments"
FLEET = "demo.fleet"
TOPICS = (ORDERS, PAYMENTS, FLEET)

_ITEMS = (("tea", 480), ("coffee", 720), ("bread", 310), ("honey", 950), ("cheese", 1240), ("apples", 260))
_CITIES = ((55.7558, 37.6173), (59.9343, 30.3351), (56.8389, 60.6057))
_METHODS = ("card", "card", "card", "transfer", "cash")
_DECLINED_SHARE = 0.04


class Event(NamedTuple):
    topic: str
    key: str
    value: bytes


@dataclass(slots=True)
class _Van:
    name: str
    latitude: float
    longitude: float
    heading: float
    speed_kmh: float


class EventSource:
    """An endless stream; the same seed gives the same events."""

    def __init__(self, seed: int | None = None, vans: int = 12) -> None:
        self._random = random.Random(seed)
        self._next_order = 1000
        self._vans = [self._new_van(number) for number in range(vans)]

    def __iter__(self) -> Iterator[Event]:
        while True:
            if self._random.random() < 0.4:
                yield from self._order_and_payment()
            yield self._position()

    def _new_van(self, number: int) -> _Van:
        latitude, longitude = self._random.choice(_CITIES)
        return _Van(f"van-{number:02}", latitude, longitude, self._random.uniform(0, 2 * math.pi), 40.0)

    def _order_and_payment(self) -> Iterator[Event]:
        rng = self._random
        self._next_order += 1
        order_id = f"order-{self._next_order}"
        bought = [(item, price, rng.randint(1, 4)) for item, price in rng.sample(_ITEMS, rng.randint(1, 3))]
        lines = [{"item": item, "price_cents": price, "quantity": count} for item, price, count in bought]
        total = sum(price * count for _, price, count in bought)
        customer = f"customer-{rng.randint(1, 500)}"
        yield _event(
            ORDERS,
            order_id,
            {"order_id": order_id, "customer": customer, "lines": lines, "total_cents": total},
        )
        status = "declined" if rng.random() < _DECLINED_SHARE else "authorized"
        method = rng.choice(_METHODS)
        yield _event(
            PAYMENTS,
            order_id,
            {"order_id": order_id, "status": status, "method": method, "amount_cents": total},
        )

    def _position(self) -> Event:
        rng = self._random
        van = rng.choice(self._vans)
        van.heading += rng.gauss(0, 0.3)
        van.speed_kmh = min(90.0, max(0.0, van.speed_kmh + rng.gauss(0, 5)))
        step_degrees = van.speed_kmh / 3600 / 111
        van.latitude += step_degrees * math.cos(van.heading)
        van.longitude += step_degrees * math.sin(van.heading) / math.cos(math.radians(van.latitude))
        return _event(
            FLEET,
            van.name,
            {
                "van": van.name,
                "latitude": round(van.latitude, 5),
                "longitude": round(van.longitude, 5),
                "speed_kmh": round(van.speed_kmh, 1),
            },
        )


def _event(topic: str, key: str, value: dict[str, object]) -> Event:
    return Event(topic, key, json.dumps(value, separators=(",", ":")).encode())


def summarize(value: bytes) -> str:
    """An event as it was read back, in few words."""
    fields = json.loads(value)
    if "van" in fields:
        place = f"{fields['latitude']:.3f},{fields['longitude']:.3f}"
        return f"{fields['van']} at {place}, {fields['speed_kmh']:.0f} km/h"
    amount = fields.get("total_cents", fields.get("amount_cents", 0)) / 100
    if "status" in fields:
        return f"{fields['order_id']} {fields['status']} by {fields['method']}, {amount:.2f}"
    return f"{fields['order_id']} by {fields['customer']}, {amount:.2f}"
