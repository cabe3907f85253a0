"""The transaction commands with a Ruslo broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.register_assert_rewrite(
    "tests.support.checks.cli_checks", "tests.support.checks.group_checks", "tests.support.checks.txn_checks"
)

from ruslo.testing import EmbeddedBroker  # noqa: E402
from tests.support.checks.txn_checks import TxnChecks  # noqa: E402
from tests.support.txns.hanging import UNVERIFIED  # noqa: E402


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with EmbeddedBroker(UNVERIFIED) as broker:
        yield broker.bootstrap


class TestTransactionsWithRuslo(TxnChecks):
    pass
