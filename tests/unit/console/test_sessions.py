from __future__ import annotations

import asyncio

import pytest

from ruslo.console import sessions as module
from ruslo.console.sessions import Sessions, TooManyAttempts


def test_tokens_belong_to_their_session_and_process() -> None:
    sessions, others = Sessions(None), Sessions(None)
    one, two = sessions.new_id(), sessions.new_id()
    assert sessions.is_id(one)
    assert sessions.is_form_token(one, sessions.form_token(one))
    assert not sessions.is_form_token(two, sessions.form_token(one))
    assert not others.is_form_token(one, sessions.form_token(one))
    assert not sessions.is_form_token(one, "ключ")


@pytest.mark.parametrize("text", ["", "short", "x" * 44, "x" * 42 + "\n", "<" * 43])
def test_what_is_no_session(text: str) -> None:
    assert not Sessions(None).is_id(text)


def test_without_a_password_everybody_is_in() -> None:
    sessions = Sessions(None)
    assert not sessions.needs_login
    assert sessions.is_logged_in(sessions.new_id())


def test_a_login_is_a_new_session_and_ends_with_a_logout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WRONG_PASSWORD_PAUSE_S", 0.0)
    sessions = Sessions("sesame")

    async def story() -> None:
        assert await sessions.log_in("wrong") is None
        session_id = await sessions.log_in("sesame")
        assert session_id is not None
        assert sessions.is_logged_in(session_id)
        assert not sessions.is_logged_in(sessions.new_id())
        sessions.log_out(session_id)
        assert not sessions.is_logged_in(session_id)

    asyncio.run(story())


def test_logins_end_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOGIN_LASTS_S", -1)
    sessions = Sessions("sesame")
    session_id = asyncio.run(sessions.log_in("sesame"))
    assert session_id is not None
    assert not sessions.is_logged_in(session_id)


def test_guesses_queue_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WRONG_PASSWORD_PAUSE_S", 0.01)

    async def story() -> list[object]:
        sessions = Sessions("sesame")
        return await asyncio.gather(*(sessions.log_in("wrong") for _ in range(14)), return_exceptions=True)

    answers = asyncio.run(story())
    assert sum(isinstance(answer, TooManyAttempts) for answer in answers) == 4
    assert sum(answer is None for answer in answers) == 10
