from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from ruslo.console import token_session
from ruslo.console.token_session import TokenSession
from ruslo.model.clock import SystemClock
from ruslo.model.secret import Secret
from ruslo.net.openid.errors import LoginRefused, ProviderUnreachable
from ruslo.net.openid.id_token import Person
from ruslo.net.openid.tokens import Tokens
from ruslo.net.sasl.mechanism import AuthenticationFailed

ALICE = Person("alice", "Alice")


def tokens(name: str, lifetime_ms: int, refresh: str | None = "refresh") -> Tokens:
    now_ms = time.time_ns() // 1_000_000
    return Tokens(
        Secret(name), now_ms, now_ms + lifetime_ms, None if refresh is None else Secret(refresh), None
    )


class Provider:
    """Does what ``steps`` say, one after another."""

    def __init__(self, *steps: Callable[[], Tokens] | Exception) -> None:
        self.steps = list(steps)
        self.renewed: list[str] = []

    def renew(self, tokens: Tokens, person: Person) -> Tokens:
        assert tokens.refresh is not None
        self.renewed.append(tokens.refresh.reveal())
        step = self.steps.pop(0)
        if isinstance(step, Exception):
            raise step
        return step()


def session(provider: Provider, first: Tokens) -> TokenSession:
    return TokenSession(provider, ALICE, first, SystemClock())


async def test_a_token_is_renewed_until_the_provider_refuses() -> None:
    provider = Provider(lambda: tokens("second", 60, "newer"), LoginRefused("The refresh token expired"))
    own = session(provider, tokens("first", 50))
    assert own.token() == Secret("first")
    reason = await own.until_end()
    assert reason == "Your access token has expired and could not be renewed. The refresh token expired."
    assert provider.renewed == ["refresh", "newer"]
    with pytest.raises(AuthenticationFailed, match="has expired"):
        own.token()


async def test_without_a_refresh_token_the_session_ends_with_the_access_token() -> None:
    provider = Provider()
    own = session(provider, tokens("only", 30, None))
    assert "gave no refresh token" in await own.until_end()
    assert provider.renewed == []


async def test_a_provider_that_is_unreachable_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_session, "_RETRY_INTERVAL_S", 0.001)
    monkeypatch.setattr(token_session, "RENEW_AFTER", 0.0)
    provider = Provider(
        ProviderUnreachable("down"), ProviderUnreachable("down"), lambda: tokens("renewed", 20, None)
    )
    own = session(provider, tokens("first", 60_000))
    await own.until_end()
    assert len(provider.renewed) == 3


async def test_a_provider_that_stays_unreachable_ends_the_session() -> None:
    own = session(Provider(ProviderUnreachable("The provider is down")), tokens("first", 30))
    assert (await own.until_end()).endswith("could not be renewed. The provider is down.")
