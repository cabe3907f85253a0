"""Options that every kind of test shares."""

from __future__ import annotations

import signal

import pytest


def pytest_configure() -> None:
    # A shell that runs the tests in the background has SIGINT ignored, and so would the commands they start,
    # some of which are to be interrupted.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--target",
        choices=["ruslo", "kafka"],
        default="ruslo",
        help="the broker of the interop tests; `kafka` proves the tests themselves against Apache Kafka",
    )
