from __future__ import annotations

import pytest

from ruslo.console.confirmation import Preview, is_confirmed
from ruslo.console.forms import Form, FormError


def test_a_preview_never_carries_a_password() -> None:
    typed = Form({"name": ["alice"], "step": ["confirm"], "new_password": ["x"], "new_password_again": ["x"]})
    preview = Preview("t", (), "b", typed, asks_new_password=True)
    assert preview.carried == [("name", "alice")]


def test_an_irreversible_change_needs_the_typed_name() -> None:
    assert not is_confirmed(Form({}), "alice")
    assert is_confirmed(Form({"step": ["confirm"], "typed": ["alice"]}), "alice")
    with pytest.raises(FormError, match="type 'alice' to confirm"):
        is_confirmed(Form({"step": ["confirm"]}), "alice")
