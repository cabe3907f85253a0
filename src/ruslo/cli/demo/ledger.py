"""The demo's books: which orders and payments were acknowledged, and what must come of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ruslo.cli.demo.events import ORDERS, Sale

_ORDERED, _PAID = 1, 2


@dataclass(slots=True)
class CityTotals:
    orders: int = 0
    declined: int = 0
    paid_cents: int = 0


@dataclass(slots=True)
class Ledger:
    """A byte for each order, so that hours of events fit."""

    orders: int = 0
    payments: int = 0
    settled: int = 0
    """Orders with their payment: so many receipts are due."""
    totals: dict[str, CityTotals] = field(default_factory=dict)
    _marks: bytearray = field(default_factory=bytearray)

    def acked(self, topic: str, sale: Sale) -> None:
        if sale.number >= len(self._marks):
            self._marks.extend(bytes(sale.number + 1 - len(self._marks)))
        if topic == ORDERS:
            self.orders += 1
            self._marks[sale.number] |= _ORDERED
        else:
            self.payments += 1
            self._marks[sale.number] |= _PAID
        if self.is_settled(sale.number):
            self.settled += 1
            total = self.totals.setdefault(sale.city, CityTotals())
            total.orders += 1
            total.declined += sale.declined
            total.paid_cents += 0 if sale.declined else sale.cents

    def is_settled(self, number: int) -> bool:
        return 0 <= number < len(self._marks) and self._marks[number] == _ORDERED | _PAID

    def compare(self, receipts: Mapping[int, int], totals: Mapping[str, CityTotals]) -> Verdict:
        """With what was read: how many receipts each order has, and the last totals of each city."""
        return Verdict(
            receipts=sum(receipts.values()),
            missing=self.settled - sum(self.is_settled(number) for number in receipts),
            repeated=sum(count - 1 for count in receipts.values()),
            unknown=sum(not self.is_settled(number) for number in receipts),
            totals_right=dict(totals) == self.totals,
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    receipts: int
    missing: int
    repeated: int
    unknown: int
    """Receipts of orders that were never acknowledged, or never paid."""
    totals_right: bool

    @property
    def is_right(self) -> bool:
        return not (self.missing or self.repeated or self.unknown) and self.totals_right
