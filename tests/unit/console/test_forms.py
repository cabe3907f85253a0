from __future__ import annotations

import pytest

from ruslo.console.confirmation import Preview, is_confirmed
from ruslo.console.forms import Form, FormError, parse_configs


def test_valid_and_invalid_numbers() -> None:
    form = Form({"a": ["12"], "b": ["x"], "c": [""], "d": ["1 000"]})
    assert (form.number("a", "A"), form.number("c", "C"), form.number("none", "N")) == (12, None, None)
    assert form.number("d", "D") == 1000
    with pytest.raises(FormError, match="B: 'x' is not a whole number"):
        form.number("b", "B")
    with pytest.raises(FormError, match=r"A: 12 is out of range. Enter a number from 1 to 9"):
        form.number("a", "A", least=1, most=9)
    with pytest.raises(FormError, match="Enter a number of at least 13"):
        form.number("a", "A", least=13)


def test_raw_text_is_unchanged() -> None:
    form = Form({"value": ["  one\r\ntwo "]})
    assert (form.text("value"), form.raw("value")) == ("one\r\ntwo", "  one\ntwo ")


def test_configs_are_lines() -> None:
    assert parse_configs("# why\n a = b=c \n\nd=") == {"a": "b=c", "d": ""}
    with pytest.raises(FormError, match="'nonsense' is not in the form name=value"):
        parse_configs("nonsense")


def test_a_confirmation_requires_the_typed_text() -> None:
    assert not is_confirmed(Form({"step": ["preview"]}))
    assert is_confirmed(Form({"step": ["confirm"]}))
    assert is_confirmed(Form({"step": ["confirm"], "typed": ["orders"]}), "orders")
    assert is_confirmed(Form({"step": ["confirm"], "typed": ["a⟨U+202E⟩b"]}), "a\u202eb")
    with pytest.raises(FormError, match="type 'orders' to confirm"):
        is_confirmed(Form({"step": ["confirm"], "typed": ["order"]}), "orders")


def test_a_preview_carries_the_form_fields() -> None:
    form = Form({"name": ["t"], "step": ["preview"], "form_token": ["x"], "typed": ["y"]})
    assert Preview("T", [], "B", form, extra=[("move", "1")]).carried == [("name", "t"), ("move", "1")]
