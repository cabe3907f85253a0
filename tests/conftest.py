"""Options that every kind of test shares."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--target",
        choices=["ruslo", "kafka"],
        default="ruslo",
        help="the broker of the interop tests; `kafka` proves the tests themselves against Apache Kafka",
    )
