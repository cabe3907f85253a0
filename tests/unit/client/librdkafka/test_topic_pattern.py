from __future__ import annotations

import re
import subprocess

import pytest

from ruslo.client.librdkafka.topic_pattern import posix_pattern
from ruslo.model.errors import ConfigError

NAMES = (
    *("orders", "orders-", "orders-1", "orders-22", "orders-d", "orders-x_1", "orders.eu", "orders.eu-1"),
    *("Orders-1", "my-orders-1", "a", "b-", "w", "d", "-", "_", "payments-7", "payments", "payments.eu.7"),
)


@pytest.mark.parametrize(
    "pattern",
    [
        *("orders-1", "orders.*", r"orders\..*", r"orders-\d+", r"orders-\d{1,2}", r"orders-\w+", "orders|a"),
        *(r"(?:orders|payments)-\d", r"(?P<what>orders)-.", r"[\w.-]+", r"[\d-]", r"[a\-d]", "[-a]", "[^-a]"),
        *(r"[^\d]+", r"payments[.\-]\w+?\.?7?", "orders-.+?", "orders-?.??", r"[a-c]\-", ".*-[0-9]++"),
    ],
)
def test_patterns_match_the_same_names_as_in_python(pattern: str) -> None:
    """grep -E uses POSIX expressions."""
    compiled = re.compile(pattern)
    found = subprocess.run(
        ["grep", "-Ex", "-e", f"^({posix_pattern(compiled)})$"],
        input="\n".join(NAMES),
        capture_output=True,
        text=True,
        env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"},
        check=False,
    )
    assert not found.stderr
    assert found.stdout.split() == [name for name in NAMES if compiled.fullmatch(name)]


@pytest.mark.parametrize(
    "pattern",
    [
        re.compile("orders", re.IGNORECASE),
        *map(re.compile, ("(?!orders).*", "(?i:orders)", r"(a)\1", r"\borders", r"[\s]", r"[\]]")),
    ],
)
def test_unsupported_patterns_are_rejected(pattern: re.Pattern[str]) -> None:
    with pytest.raises(ConfigError, match="which librdkafka does not support"):
        posix_pattern(pattern)
