from __future__ import annotations

import random
from itertools import pairwise

import pytest

from ruslo.console.password_attempts import (
    CHECK_INTERVAL_S,
    WAITING_MAX,
    WAITING_PER_ADDRESS_MAX,
    PasswordAttempts,
    TooManyAttempts,
)


def test_a_wrong_password_delays_the_next_check_even_of_another_address() -> None:
    attempts = PasswordAttempts()
    assert attempts.enter("a", 100.0) == 0
    attempts.leave("a", correct=False, now=100.0)
    assert attempts.enter("b", 100.25) == pytest.approx(CHECK_INTERVAL_S - 0.25)


def test_correct_passwords_are_checked_at_once() -> None:
    attempts = PasswordAttempts()
    for _ in range(50):
        assert attempts.enter("a", 100.0) == 0
        attempts.leave("a", correct=True, now=100.0)


def test_one_address_does_not_fill_the_queue() -> None:
    attempts = PasswordAttempts()
    for _ in range(WAITING_PER_ADDRESS_MAX):
        attempts.enter("a", 100.0)
    with pytest.raises(TooManyAttempts):
        attempts.enter("a", 100.0)
    assert attempts.enter("b", 100.0) == WAITING_PER_ADDRESS_MAX * CHECK_INTERVAL_S


def test_the_queue_is_bounded() -> None:
    attempts = PasswordAttempts()
    for number in range(WAITING_MAX):
        attempts.enter(f"address {number}", 100.0)
    with pytest.raises(TooManyAttempts):
        attempts.enter("one more", 100.0)


@pytest.mark.parametrize("seed", range(20))
def test_wrong_passwords_are_never_checked_faster_than_the_rate(seed: int) -> None:
    """Many addresses guess at random times, and some disconnect while they wait."""
    chance = random.Random(seed)
    attempts = PasswordAttempts()
    now = 0.0
    waiting: list[tuple[float, str]] = []
    checked: list[float] = []
    for _ in range(5000):
        now += chance.expovariate(50)
        for entry in [entry for entry in waiting if entry[0] <= now or chance.random() < 0.002]:
            waiting.remove(entry)
            if entry[0] <= now:
                checked.append(entry[0])
            attempts.leave(entry[1], correct=False, now=now)
        address = f"address {chance.randrange(40)}"
        try:
            waiting.append((now + attempts.enter(address, now), address))
        except TooManyAttempts:
            continue
    checked.sort()
    assert len(checked) > 10
    assert all(later - earlier > CHECK_INTERVAL_S - 1e-6 for earlier, later in pairwise(checked))
