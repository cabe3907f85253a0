"""The groups of a request, divided by what its client may do."""

from __future__ import annotations

from typing import Any

from ruslo.broker.handlers.allowed_resources import split_groups
from ruslo.model.acls import Operation


class OnlyG:
    """A request's context that allows everything on group g."""

    def allows(self, operation: Operation, resource: object, name: str) -> bool:
        return name == "g"


def test_each_group_is_returned_once() -> None:
    context: Any = OnlyG()
    assert split_groups(context, Operation.DESCRIBE, ["g", "h", "g", "h"]) == (["g"], ["h"])
