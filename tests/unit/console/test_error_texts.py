from __future__ import annotations

import pytest

from ruslo.console.error_texts import error_text, parent_page
from ruslo.model.errors import ErrorCode, KafkaError


@pytest.mark.parametrize(
    ("path", "parent"),
    [
        ("/topics/gone", "/topics"),
        ("/topics/orders/messages/0/99", "/topics/orders/messages"),
        ("/group", "/groups"),
        ("/brokers/9", "/brokers"),
        ("/dead-letters/replay", "/pipelines"),
        ("/topics", None),
        ("/nowhere", None),
    ],
)
def test_the_parent_of_a_missing_page(path: str, parent: str | None) -> None:
    found = parent_page(path)
    assert (None if found is None else found[0]) == parent


def test_an_error_is_a_sentence_with_the_fix() -> None:
    assert error_text(KafkaError(ErrorCode.NON_EMPTY_GROUP, "group 'g' has members.")) == (
        "Group 'g' has members (NON_EMPTY_GROUP). Stop its consumers first."
    )
    assert (
        error_text(TimeoutError())
        == "The cluster did not respond in time. Check that its brokers are running."
    )
