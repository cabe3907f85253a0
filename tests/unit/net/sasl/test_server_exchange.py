"""The order of SaslHandshake and SaslAuthenticate, and authenticating again."""

from __future__ import annotations

import pytest

from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.principals import Principal
from ruslo.model.secret import Secret
from ruslo.net.sasl.mechanism import AuthenticationFailed, Identity, ServerMechanismKind
from ruslo.net.sasl.oauthbearer import OAuthBearerServer
from ruslo.net.sasl.plain import PlainServer
from ruslo.net.sasl.server_exchange import MAX_HANDSHAKE_BYTES, ServerExchange

USERS = {"alice": Secret("a"), "bob": Secret("b")}
ALICE = b"\0alice\0a"


def new(max_session_ms: int = 0, expires_at_ms: int | None = None) -> ServerExchange:
    plain = ServerMechanismKind("PLAIN", lambda: PlainServer(USERS.get), 100, max_session_ms)
    bearer = ServerMechanismKind(
        "OAUTHBEARER",
        lambda: OAuthBearerServer(lambda token: Identity(token.reveal(), expires_at_ms=expires_at_ms)),
        5000,
        max_session_ms,
    )
    return ServerExchange({"PLAIN": plain, "OAUTHBEARER": bearer})


def code(action: object) -> ErrorCode:
    with pytest.raises(KafkaError) as failure:
        action()  # type: ignore[operator]
    return failure.value.code


def test_a_client_chooses_a_mechanism_and_authenticates() -> None:
    exchange = new()
    assert exchange.mechanisms == ["PLAIN", "OAUTHBEARER"]
    assert exchange.max_message_bytes == MAX_HANDSHAKE_BYTES
    exchange.choose("PLAIN")
    assert exchange.max_message_bytes == 100
    response, result = exchange.authenticate(ALICE, now_ms=0)
    assert response == b""
    assert result is not None
    assert (result.principal, result.session_ms) == (Principal("User", "alice"), 0)


def test_a_token_is_awaited_from_the_choice_of_a_mechanism_until_it_is_accepted() -> None:
    exchange = new()
    awaited = [exchange.awaits_token]
    exchange.choose("PLAIN")
    awaited.append(exchange.awaits_token)
    exchange.authenticate(ALICE, 0)
    assert [*awaited, exchange.awaits_token] == [False, True, False]


def test_authenticating_without_a_mechanism_is_an_illegal_state() -> None:
    assert code(lambda: new().authenticate(ALICE, 0)) is ErrorCode.ILLEGAL_SASL_STATE
    exchange = new()
    exchange.choose("PLAIN")
    exchange.authenticate(ALICE, 0)
    assert code(lambda: exchange.authenticate(ALICE, 0)) is ErrorCode.ILLEGAL_SASL_STATE


def test_a_mechanism_cannot_be_exchanged_in_the_middle() -> None:
    exchange = new()
    exchange.choose("OAUTHBEARER")
    assert code(lambda: exchange.choose("PLAIN")) is ErrorCode.ILLEGAL_SASL_STATE


def test_an_unknown_mechanism_is_refused() -> None:
    assert code(lambda: new().choose("SCRAM-SHA-1")) is ErrorCode.UNSUPPORTED_SASL_MECHANISM


def test_a_client_authenticates_again_as_the_same_principal() -> None:
    exchange = new(max_session_ms=1000)
    exchange.choose("PLAIN")
    _, first = exchange.authenticate(ALICE, 0)
    exchange.choose("PLAIN")
    _, second = exchange.authenticate(ALICE, 500)
    assert first is not None
    assert first.session_ms == 1000
    assert second is not None
    exchange.choose("PLAIN")
    with pytest.raises(AuthenticationFailed) as failure:
        exchange.authenticate(b"\0bob\0b", 500)
    assert failure.value.public == (
        "Cannot change principals during re-authentication from User.alice: User.bob"
    )


def test_a_client_authenticates_again_once_in_a_second() -> None:
    exchange = new(max_session_ms=10_000)
    assert exchange.may_begin(0)
    exchange.choose("PLAIN")
    exchange.authenticate(ALICE, 0)
    assert [exchange.may_begin(now_ms) for now_ms in (1, 2, 1000, 1001)] == [True, False, False, True]


def test_a_client_whose_session_does_not_end_cannot_authenticate_again() -> None:
    exchange = new()
    exchange.choose("PLAIN")
    exchange.authenticate(ALICE, 0)
    assert not exchange.may_begin(5000)


def test_a_client_keeps_its_mechanism_when_it_authenticates_again() -> None:
    exchange = new()
    exchange.choose("PLAIN")
    exchange.authenticate(ALICE, 0)
    assert code(lambda: exchange.choose("OAUTHBEARER")) is ErrorCode.SASL_AUTHENTICATION_FAILED


@pytest.mark.parametrize(
    ("max_session_ms", "expires_at_ms", "expected"),
    [
        (0, None, 0),
        (1000, None, 1000),
        (0, 5_000, 4_000),
        (1000, 5_000, 1000),
        (9000, 5_000, 4_000),
        (0, 1, 1),
    ],
)
def test_a_session_ends_with_the_credential_or_after_the_configured_time(
    max_session_ms: int, expires_at_ms: int | None, expected: int
) -> None:
    exchange = new(max_session_ms, expires_at_ms)
    exchange.choose("OAUTHBEARER")
    _, result = exchange.authenticate(b"n,,\x01auth=Bearer alice\x01\x01", now_ms=1_000)
    assert result is not None
    assert result.session_ms == expected
