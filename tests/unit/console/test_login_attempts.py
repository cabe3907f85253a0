from __future__ import annotations

import pytest

from ruslo.console.login_attempts import DURATION_S, LoginAttempts


class ManualClock:
    def __init__(self) -> None:
        self.ms = 1000

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms

    def monotonic_ns(self) -> int:
        return self.ms * 1_000_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def test_a_cookie_brings_its_attempt_back(clock: ManualClock) -> None:
    attempts = LoginAttempts(clock)
    cookie, attempt = attempts.begin("/topics?q=ключ")
    assert attempts.find(cookie) == attempt
    assert attempt.after == "/topics?q=ключ"
    assert len({*attempt.authorization}) == 3
    assert len(attempt.authorization.verifier) >= 43, "RFC 7636"
    assert not any(secret in cookie for secret in attempt.authorization), "the browser learns no secret"
    assert attempts.begin("/")[1].authorization != attempt.authorization


def test_an_attempt_ends_once_and_expires(clock: ManualClock) -> None:
    attempts = LoginAttempts(clock)
    ended, _ = attempts.begin("/")
    expired, _ = attempts.begin("/")
    attempts.end(ended)
    assert attempts.find(ended) is None
    assert attempts.find(expired) is not None
    clock.ms += (DURATION_S + 1) * 1000
    assert attempts.find(expired) is None


def test_a_cookie_that_was_changed_or_is_of_another_process(clock: ManualClock) -> None:
    attempts = LoginAttempts(clock)
    cookie, _ = attempts.begin("/")
    assert LoginAttempts(clock).find(cookie) is None
    name, begun, after, signature = cookie.split(".")
    for forged in ("", ".", "a.b.c.d", cookie + "x", f"{name}.9{begun}.{after}.{signature}", "ключ"):
        assert attempts.find(forged) is None


def test_a_long_address_is_not_kept(clock: ManualClock) -> None:
    assert LoginAttempts(clock).begin("/" + "x" * 5000)[1].after == "/"
