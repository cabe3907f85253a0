"""Live events of a small delivery business: orders, payments and van positions."""

from __future__ import annotations

import json
import math
import random
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

ORDERS = "demo.orders"
PAYMENTS = "demo.payments"
FLEET = "demo.fleet"
TOPICS = (ORDERS, PAYMENTS, FLEET)

_ITEMS = (("tea", 480), ("coffee", 720), ("bread", 310), ("honey", 950), ("cheese", 1240), ("apples", 260))
_CITIES = {
    "Moscow": (55.7558, 37.6173),
    "Saint Petersburg": (59.9343, 30.3351),
    "Yekaterinburg": (56.8389, 60.6057),
}
_METHODS = ("card", "card", "card", "transfer", "cash")
_DECLINED_SHARE = 0.04
_UNPAID_MAX = 20
"""Maximum number of unpaid orders, so that the join has to wait for payments."""


class Sale(NamedTuple):
    """An order and its payment."""

    number: int
    city: str
    cents: int
    declined: bool


class Event(NamedTuple):
    topic: str
    key: str
    value: bytes
    sale: Sale | None = None


@dataclass(slots=True)
class _Van:
    name: str
    latitude: float
    longitude: float
    heading: float
    speed_kmh: float


class EventSource:
    """An endless stream of events. The same seed gives the same events, except for timestamps."""

    def __init__(
        self, seed: int | None = None, vans: int = 12, clock: Callable[[], float] = time.time
    ) -> None:
        self._random = random.Random(seed)
        self._clock = clock
        self._orders = 0
        self._unpaid: deque[Sale] = deque()
        self._vans = [self._new_van(number) for number in range(vans)]

    def __iter__(self) -> Iterator[Event]:
        while True:
            if self._random.random() < 0.4:
                yield self._order()
                if len(self._unpaid) >= self._random.randint(1, _UNPAID_MAX):
                    yield self._payment()
            yield self._position()
            if len(self._unpaid) > _UNPAID_MAX // 2:
                yield self._payment()

    def last_payments(self) -> Iterator[Event]:
        """The payments of all unpaid orders, at the end of the demo."""
        while self._unpaid:
            yield self._payment()

    def _new_van(self, number: int) -> _Van:
        latitude, longitude = self._random.choice(list(_CITIES.values()))
        return _Van(f"van-{number:02}", latitude, longitude, self._random.uniform(0, 2 * math.pi), 40.0)

    def _order(self) -> Event:
        rng = self._random
        bought = [(item, price, rng.randint(1, 4)) for item, price in rng.sample(_ITEMS, rng.randint(1, 3))]
        lines = [{"item": item, "price_cents": price, "quantity": count} for item, price, count in bought]
        total = sum(price * count for _, price, count in bought)
        sale = Sale(self._orders, rng.choice(list(_CITIES)), total, rng.random() < _DECLINED_SHARE)
        self._orders += 1
        self._unpaid.append(sale)
        about = {"customer": f"customer-{rng.randint(1, 500)}", "city": sale.city, "lines": lines}
        return self._of_sale(ORDERS, sale, about | {"total_cents": total})

    def _payment(self) -> Event:
        sale = self._unpaid.popleft()
        status, method = "declined" if sale.declined else "authorized", self._random.choice(_METHODS)
        about = {"status": status, "method": method, "amount_cents": sale.cents}
        return self._of_sale(PAYMENTS, sale, about)

    def _of_sale(self, topic: str, sale: Sale, about: dict[str, object]) -> Event:
        order_id = order_key(sale.number)
        at = datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="milliseconds")
        return Event(topic, order_id, _json({"order_id": order_id, **about, "at": at}), sale)

    def _position(self) -> Event:
        rng = self._random
        van = rng.choice(self._vans)
        van.heading += rng.gauss(0, 0.3)
        van.speed_kmh = min(90.0, max(0.0, van.speed_kmh + rng.gauss(0, 5)))
        step_degrees = van.speed_kmh / 3600 / 111
        van.latitude += step_degrees * math.cos(van.heading)
        van.longitude += step_degrees * math.sin(van.heading) / math.cos(math.radians(van.latitude))
        fields = {
            "van": van.name,
            "latitude": round(van.latitude, 5),
            "longitude": round(van.longitude, 5),
            "speed_kmh": round(van.speed_kmh, 1),
        }
        return Event(FLEET, van.name, _json(fields))


def order_key(number: int) -> str:
    return f"order-{1001 + number}"


def order_number(key: str) -> int:
    """The reverse of ``order_key``."""
    return int(key.removeprefix("order-")) - 1001


def _json(value: dict[str, object]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def summarize(value: bytes) -> str:
    """A short text for an event."""
    fields = json.loads(value)
    if "van" in fields:
        position = f"{fields['latitude']:.3f},{fields['longitude']:.3f}"
        return f"{fields['van']} at {position}, {fields['speed_kmh']:.0f} km/h"
    amount = fields.get("total_cents", fields.get("amount_cents", 0)) / 100
    if "status" in fields:
        return f"{fields['order_id']} {fields['status']} by {fields['method']}, {amount:.2f}"
    return f"{fields['order_id']} by {fields['customer']}, {amount:.2f}"
