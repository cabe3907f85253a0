"""The group commands with a Ruslo broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.register_assert_rewrite("tests.support.checks.group_checks")

from ruslo.testing import EmbeddedBroker  # noqa: E402
from tests.support.checks.group_checks import GroupChecks  # noqa: E402
from tests.support.groups.group_members import GROUP_NODE_PROPERTIES  # noqa: E402


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with EmbeddedBroker({"group.initial.rebalance.delay.ms": "0", **GROUP_NODE_PROPERTIES}) as broker:
        yield broker.bootstrap


class TestGroupsWithRuslo(GroupChecks):
    pass
