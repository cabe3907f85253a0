from __future__ import annotations

import asyncio

import pytest

from ruslo.console import password_attempts
from ruslo.console import sessions as module
from ruslo.console.password_attempts import TooManyAttempts
from ruslo.console.sessions import Sessions

HERE = "127.0.0.1"


def test_tokens_belong_to_their_session_and_process() -> None:
    sessions, others = Sessions(None), Sessions(None)
    one, two = sessions.new_id(), sessions.new_id()
    assert sessions.is_id(one)
    assert sessions.is_form_token(one, sessions.form_token(one))
    assert not sessions.is_form_token(two, sessions.form_token(one))
    assert not others.is_form_token(one, sessions.form_token(one))
    assert not sessions.is_form_token(one, "ключ")


@pytest.mark.parametrize("text", ["", "short", "x" * 44, "x" * 42 + "\n", "<" * 43])
def test_invalid_session_ids(text: str) -> None:
    assert not Sessions(None).is_id(text)


def test_without_a_password_every_session_is_logged_in() -> None:
    sessions = Sessions(None)
    assert not sessions.needs_login
    assert sessions.is_logged_in(sessions.new_id())


async def test_a_login_is_a_new_session_and_ends_with_a_logout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(password_attempts, "CHECK_INTERVAL_S", 0.0)
    sessions = Sessions("sesame")
    assert await sessions.log_in("wrong", HERE) is None
    session_id = await sessions.log_in("sesame", HERE)
    assert session_id is not None
    assert sessions.is_logged_in(session_id)
    assert not sessions.is_logged_in(sessions.new_id())
    sessions.log_out(session_id)
    assert not sessions.is_logged_in(session_id)


async def test_a_session_that_ends_by_itself_says_why() -> None:
    sessions = Sessions("sesame")
    one, two = await sessions.log_in("sesame", HERE), await sessions.log_in("sesame", HERE)
    assert one is not None
    assert two is not None
    sessions.log_out(one, "Your access token has expired.")
    sessions.log_out(two)
    sessions.log_out("unknown", "reason")
    assert sessions.end_reason(one) == "Your access token has expired."
    assert sessions.end_reason(two) is sessions.end_reason("unknown") is None


def test_logins_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOGIN_DURATION_S", -1)
    sessions = Sessions("sesame")
    session_id = asyncio.run(sessions.log_in("sesame", HERE))
    assert session_id is not None
    assert not sessions.is_logged_in(session_id)


async def test_a_correct_password_is_rejected_while_the_queue_is_full() -> None:
    sessions = Sessions("sesame")
    assert await sessions.log_in("wrong", HERE) is None
    waiting = [
        asyncio.create_task(sessions.log_in("wrong", HERE))
        for _ in range(password_attempts.WAITING_PER_ADDRESS_MAX)
    ]
    await asyncio.sleep(0)
    with pytest.raises(TooManyAttempts):
        await sessions.log_in("sesame", HERE)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
