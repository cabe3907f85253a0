from __future__ import annotations

import pytest

from ruslo.cli.demo.events import ORDERS, PAYMENTS, Sale
from ruslo.cli.demo.ledger import CityTotals, Ledger, Verdict

SALES = [Sale(0, "Kazan", 500, False), Sale(1, "Omsk", 300, True), Sale(2, "Kazan", 200, False)]


@pytest.fixture
def ledger() -> Ledger:
    """Three orders; the last one is unpaid."""
    books = Ledger()
    for sale in SALES:
        books.acked(ORDERS, sale)
    for sale in SALES[1::-1]:
        books.acked(PAYMENTS, sale)
    return books


TOTALS = {"Kazan": CityTotals(1, 0, 500), "Omsk": CityTotals(1, 1, 0)}


def test_an_order_is_paid_when_it_and_its_payment_are_acknowledged(ledger: Ledger) -> None:
    assert (ledger.orders, ledger.payments, ledger.receipts_due) == (3, 2, 2)
    assert [ledger.is_paid(number) for number in (-1, 0, 1, 2, 3)] == [False, True, True, False, False]
    assert ledger.totals == TOTALS


def test_each_result_once_is_correct(ledger: Ledger) -> None:
    verdict = ledger.compare({0: 1, 1: 1}, TOTALS)
    assert verdict == Verdict(receipts=2, missing=0, repeated=0, unknown=0, totals_right=True)
    assert verdict.is_right


@pytest.mark.parametrize(
    ("receipts", "totals", "verdict"),
    [
        ({0: 1}, TOTALS, Verdict(1, 1, 0, 0, True)),
        ({0: 1, 1: 3}, TOTALS, Verdict(4, 0, 2, 0, True)),
        ({0: 1, 1: 1, 2: 1}, TOTALS, Verdict(3, 0, 0, 1, True)),
        ({1: 1, 7: 1}, TOTALS, Verdict(2, 1, 0, 1, True)),
        ({0: 1, 1: 1}, {}, Verdict(2, 0, 0, 0, False)),
    ],
    ids=["lost", "twice", "unpaid", "lost and invented", "totals"],
)
def test_lost_and_duplicate_results_are_reported(
    ledger: Ledger, receipts: dict[int, int], totals: dict[str, CityTotals], verdict: Verdict
) -> None:
    assert ledger.compare(receipts, totals) == verdict
    assert not verdict.is_right
