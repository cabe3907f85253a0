"""Acknowledged orders and payments of the demo, and the results expected from them."""

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
    """Uses one byte per order, so that hours of events fit into memory."""

    orders: int = 0
    payments: int = 0
    receipts_due: int = 0
    """Orders with a payment: each must have one receipt."""
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
        if self.is_paid(sale.number):
            self.receipts_due += 1
            total = self.totals.setdefault(sale.city, CityTotals())
            total.orders += 1
            total.declined += sale.declined
            total.paid_cents += 0 if sale.declined else sale.cents

    def is_paid(self, number: int) -> bool:
        return 0 <= number < len(self._marks) and self._marks[number] == _ORDERED | _PAID

    def compare(self, receipts: Mapping[int, int], totals: Mapping[str, CityTotals]) -> Verdict:
        """Compare with the number of receipts of each order and the last totals of each city."""
        return Verdict(
            receipts=sum(receipts.values()),
            missing=self.receipts_due - sum(self.is_paid(number) for number in receipts),
            repeated=sum(count - 1 for count in receipts.values()),
            unknown=sum(not self.is_paid(number) for number in receipts),
            totals_right=dict(totals) == self.totals,
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    receipts: int
    missing: int
    repeated: int
    unknown: int
    """Receipts of orders that were not acknowledged or not paid."""
    totals_right: bool

    @property
    def is_right(self) -> bool:
        return not (self.missing or self.repeated or self.unknown) and self.totals_right
