"""OAUTHBEARER messages of both sides."""

from __future__ import annotations

import pytest

from ruslo.model.secret import Secret
from ruslo.net.sasl.mechanism import AuthenticationFailed, Identity
from ruslo.net.sasl.oauthbearer import OAuthBearerClient, OAuthBearerServer


def validate(token: Secret) -> Identity:
    if token.reveal() != "good.token-1":
        raise AuthenticationFailed("expired")
    return Identity("alice", expires_at_ms=5)


def test_a_valid_token_authenticates() -> None:
    server, client = (
        OAuthBearerServer(validate),
        OAuthBearerClient(Secret("good.token-1"), {"traceId": "1 2"}),
    )
    message = client.respond(b"")
    assert message == b"n,,\x01auth=Bearer good.token-1\x01traceId=1 2\x01\x01"
    assert client.respond(server.respond(message)) == b""
    assert client.complete
    assert server.identity == Identity("alice", expires_at_ms=5)


def test_the_client_acknowledges_the_error_before_the_exchange_fails() -> None:
    server, client = OAuthBearerServer(validate), OAuthBearerClient(Secret("bad"))
    challenge = server.respond(client.respond(b""))
    assert challenge == b'{"status":"invalid_token"}'
    answer = client.respond(challenge)
    assert answer == b"\x01"
    with pytest.raises(AuthenticationFailed) as failure:
        server.respond(answer)
    assert failure.value.reason == "expired"
    assert failure.value.public == '{"status":"invalid_token"}'
    assert server.identity is None


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,\x01\x01",
        b"n,,\x01auth=Basic abc\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"y,,\x01auth=Bearer good.token-1\x01\x01",
        b"n,,\x01auth=Bearer good.token-1\x01",
        b"\xff",
    ],
)
def test_malformed_messages_are_refused(message: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        OAuthBearerServer(validate).respond(message)


def test_another_authorization_id_is_refused() -> None:
    with pytest.raises(AuthenticationFailed):
        OAuthBearerServer(validate).respond(b"n,a=admin,\x01auth=Bearer good.token-1\x01\x01")
    assert OAuthBearerServer(validate).respond(b"n,a=alice,\x01auth=Bearer good.token-1\x01\x01") == b""
