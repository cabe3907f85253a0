"""The commands and the clients with a Ruslo broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.register_assert_rewrite("tests.support.checks.cli_checks", "tests.support.checks.client_checks")

from ruslo.testing import EmbeddedBroker  # noqa: E402
from tests.support.checks.cli_checks import CliChecks  # noqa: E402
from tests.support.checks.client_checks import ClientChecks  # noqa: E402


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with EmbeddedBroker() as broker:
        yield broker.bootstrap


class TestCommandsWithRuslo(CliChecks):
    pass


class TestClientsWithRuslo(ClientChecks):
    pass
