from __future__ import annotations

import pytest

from ruslo.console.forms import Form, Paged, paged

SEVEN = [0, 1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        ("", Paged([0, 1, 2], 7, 1, 3)),
        ("2", Paged([3, 4, 5], 7, 2, 3)),
        ("99", Paged([6], 7, 3, 3)),
        ("-5", Paged([0, 1, 2], 7, 1, 3)),
    ],
)
def test_every_page_number_selects_a_page(number: str, shown: Paged[int]) -> None:
    assert paged(SEVEN, Form({"page": [number]}), 3) == shown


def test_an_empty_list_has_one_page() -> None:
    assert paged([], Form({}), 3) == Paged([], 0, 1, 1)
