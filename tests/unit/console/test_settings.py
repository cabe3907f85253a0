from __future__ import annotations

import pytest

from ruslo.console.settings import ConsoleSettings, is_loopback
from ruslo.model.errors import ConfigError


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_the_loopback_needs_no_password(host: str) -> None:
    assert is_loopback(host)
    assert ConsoleSettings("b:1", host).password is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org", ""])
def test_other_addresses_need_a_password(host: str) -> None:
    with pytest.raises(ConfigError, match="needs a password: set RUSLO_CONSOLE_PASSWORD"):
        ConsoleSettings("b:1", host)
    assert ConsoleSettings("b:1", host, password="x").password == "x"
