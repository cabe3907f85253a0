"""The commands of share groups and streams groups with a Ruslo broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.register_assert_rewrite("tests.support.checks.share_checks", "tests.support.checks.streams_checks")

from ruslo.testing import EmbeddedBroker  # noqa: E402
from tests.support.checks.cli_checks import Cli  # noqa: E402
from tests.support.checks.group_checks import until  # noqa: E402
from tests.support.checks.share_checks import ShareChecks, joined, new_queue  # noqa: E402
from tests.support.checks.streams_checks import STREAMS_NODE_PROPERTIES, StreamsChecks  # noqa: E402
from tests.support.groups.group_members import GROUP_NODE_PROPERTIES  # noqa: E402
from tests.support.share.share_node import SHARE_NODE_PROPERTIES  # noqa: E402


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    properties = {**GROUP_NODE_PROPERTIES, **SHARE_NODE_PROPERTIES, **STREAMS_NODE_PROPERTIES}
    with EmbeddedBroker(properties) as broker:
        yield broker.bootstrap


class TestShareGroupsWithRuslo(ShareChecks):
    pass


class TestStreamsGroupsWithRuslo(StreamsChecks):
    pass
