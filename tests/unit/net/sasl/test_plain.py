"""PLAIN: user and password."""

from __future__ import annotations

from functools import partial

import pytest

from ruslo.model.secret import Secret
from ruslo.net.sasl.mechanism import AuthenticationFailed, Identity
from ruslo.net.sasl.plain import PlainClient, PlainServer
from tests.support.checks.crypto_work import crypto_calls

USERS = {"alice": Secret("wonderland")}


def test_the_right_password_authenticates() -> None:
    server, client = PlainServer(USERS.get), PlainClient("alice", Secret("wonderland"))
    assert server.respond(client.respond(b"")) == b""
    assert server.identity == Identity("alice")
    assert client.complete


@pytest.mark.parametrize(("user", "password"), [("alice", "x"), ("bob", "wonderland"), ("bob", "\1")])
def test_an_unknown_user_and_a_wrong_password_fail_alike(user: str, password: str) -> None:
    server = PlainServer(USERS.get)
    with pytest.raises(AuthenticationFailed) as failure:
        server.respond(f"\0{user}\0{password}".encode())
    assert failure.value.public == "Authentication failed: Invalid username or password"
    assert server.identity is None


@pytest.mark.parametrize(
    "message", [b"", b"alice", b"\0alice", b"\0\0x", b"\0alice\0", b"\0alice\0x\0y", b"\xff\0\xff\0\xff"]
)
def test_malformed_messages_are_refused(message: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        PlainServer(USERS.get).respond(message)


def test_every_truncation_is_refused() -> None:
    message = PlainClient("alice", Secret("wonderland")).respond(b"")
    for size in range(len(message)):
        server = PlainServer(USERS.get)
        with pytest.raises(AuthenticationFailed):
            server.respond(message[:size])
        assert server.identity is None


def test_a_password_is_compared_in_constant_time_whether_or_not_the_user_exists() -> None:
    def log_in(user: str) -> None:
        with pytest.raises(AuthenticationFailed):
            PlainServer(USERS.get).respond(f"\0{user}\0wrong".encode())

    works = [crypto_calls(partial(log_in, user)) for user in ("alice", "stranger")]
    assert works[0] == works[1] == ["compare_digest"]


def test_another_authorization_id_is_refused() -> None:
    with pytest.raises(AuthenticationFailed):
        PlainServer(USERS.get).respond(b"admin\0alice\0wonderland")
    assert PlainServer(USERS.get).respond(b"alice\0alice\0wonderland") == b""
