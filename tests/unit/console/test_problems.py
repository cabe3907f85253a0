from __future__ import annotations

import pytest

from ruslo.console.problems import reason, way_on
from ruslo.model.errors import ErrorCode, KafkaError


@pytest.mark.parametrize(
    ("path", "leads_to"),
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
def test_a_page_that_is_not_there_has_a_way_on(path: str, leads_to: str | None) -> None:
    place = way_on(path)
    assert (None if place is None else place[0]) == leads_to


def test_what_went_wrong_is_a_sentence_with_advice() -> None:
    assert reason(KafkaError(ErrorCode.NON_EMPTY_GROUP, "group 'g' has members.")) == (
        "Group 'g' has members (NON_EMPTY_GROUP). Stop its consumers first."
    )
    assert reason(TimeoutError()) == "The cluster did not answer in time."
