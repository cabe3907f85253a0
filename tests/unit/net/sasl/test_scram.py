"""SCRAM: both sides against each other and against the example of RFC 7677, and hostile messages."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from ruslo.model.scram import ScramMechanism, new_credential, salted_password
from ruslo.model.secret import Secret
from ruslo.net.sasl.mechanism import AuthenticationFailed, Identity
from ruslo.net.sasl.scram import ScramAccount, ScramClient, ScramServer, unknown_account

MECHANISM = ScramMechanism.SCRAM_SHA_256
PASSWORD = Secret("pencil")


def find(user: str, by_token: bool) -> ScramAccount:
    if by_token and user == "token-1":
        return ScramAccount(CREDENTIAL, Identity("owner", user, 123))
    if not by_token and user in ("user", "a=b,c"):
        return ScramAccount(CREDENTIAL, Identity(user))
    return unknown_account(MECHANISM, user, CREDENTIAL.salt, CREDENTIAL.iterations)


CREDENTIAL = new_credential(MECHANISM, PASSWORD)


def exchange(client: ScramClient, server: ScramServer) -> None:
    message = client.respond(b"")
    while not client.complete:
        message = client.respond(server.respond(message))


@pytest.mark.parametrize("mechanism", ScramMechanism)
@pytest.mark.parametrize("user", ["user", "a=b,c"])
def test_the_right_password_authenticates(mechanism: ScramMechanism, user: str) -> None:
    credential = new_credential(mechanism, PASSWORD, 8192)
    server = ScramServer(mechanism, lambda name, _: ScramAccount(credential, Identity(name)))
    exchange(ScramClient(mechanism, user, PASSWORD), server)
    assert server.identity == Identity(user)


def test_a_delegation_token_authenticates_its_owner() -> None:
    server = ScramServer(MECHANISM, find)
    exchange(ScramClient(MECHANISM, "token-1", PASSWORD, token_auth=True), server)
    assert server.identity == Identity("owner", "token-1", 123)


def test_the_example_of_the_rfc(monkeypatch: pytest.MonkeyPatch) -> None:
    nonce = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    monkeypatch.setattr("ruslo.net.sasl.scram.secrets.token_urlsafe", lambda size: nonce)
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    credential = new_credential(MECHANISM, PASSWORD, 4096, salt)
    server = ScramServer(MECHANISM, lambda name, _: ScramAccount(credential, Identity(name)))
    first = server.respond(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert first == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    final = server.respond(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert final == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert server.identity == Identity("user")


def test_an_unknown_user_and_a_wrong_password_fail_alike() -> None:
    failures = []
    for user, password in (("user", "wrong"), ("nowhere", "pencil")):
        server, client = ScramServer(MECHANISM, find), ScramClient(MECHANISM, user, Secret(password))
        challenge = server.respond(client.respond(b""))
        # Both get a salt and the same number of iterations.
        assert challenge.endswith(b",i=4096")
        with pytest.raises(AuthenticationFailed) as failure:
            server.respond(client.respond(challenge))
        failures.append(failure.value)
        assert server.identity is None
    assert failures[0].public == failures[1].public is None


def test_a_message_of_another_exchange_is_refused() -> None:
    first, second = ScramServer(MECHANISM, find), ScramServer(MECHANISM, find)
    client = ScramClient(MECHANISM, "user", PASSWORD)
    hello = client.respond(b"")
    final = client.respond(first.respond(hello))
    second.respond(hello)
    with pytest.raises(AuthenticationFailed, match="nonce"):
        second.respond(final)


def test_librdkafka_before_2_6_1_repeats_its_nonce_and_logs_in() -> None:
    server, client = ScramServer(MECHANISM, find), ScramClient(MECHANISM, "user", PASSWORD)
    hello = client.respond(b"")
    own = hello.decode().partition(",r=")[2]
    combined = server.respond(hello).decode().partition(",")[0].removeprefix("r=")
    without_proof = f"c=biws,r={own}{combined}"
    final = f"{without_proof},p={proof_for(server, without_proof)}"
    assert server.respond(final.encode()).startswith(b"v=")
    assert server.identity == Identity("user")


def test_a_replayed_final_message_begins_a_new_exchange_and_is_malformed() -> None:
    server, client = ScramServer(MECHANISM, find), ScramClient(MECHANISM, "user", PASSWORD)
    final = client.respond(server.respond(client.respond(b"")))
    server.respond(final)
    with pytest.raises(AuthenticationFailed, match="malformed"):
        server.respond(final)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,",
        b"n,,n=user",
        b"n,,r=abc,n=user",
        b"p=tls-unique,,n=user,r=abc",
        b"n,,n=us=er,r=abc",
        b"n,,n=user,r=a b",
        b"\xff\xfe",
        b"n,,n=user,r=abc\0",
    ],
)
def test_malformed_first_messages_are_refused(message: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        ScramServer(MECHANISM, find).respond(message)


def test_another_authorization_id_is_refused() -> None:
    with pytest.raises(AuthenticationFailed) as failure:
        ScramServer(MECHANISM, find).respond(b"n,a=admin,n=user,r=abc")
    assert "authorization id" in (failure.value.public or "")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"c=biws", b"c=eSws"),
        (b"c=biws", b"c=cD10bHMtdW5pcXVlLCw="),
        (b",p=", b",p=AAAA"),
        (b",p=", b",x=1,q="),
    ],
)
def test_truncated_and_changed_final_messages_are_refused(old: bytes, new: bytes) -> None:
    server, client = ScramServer(MECHANISM, find), ScramClient(MECHANISM, "user", PASSWORD)
    final = client.respond(server.respond(client.respond(b"")))
    with pytest.raises(AuthenticationFailed):
        server.respond(final.replace(old, new))


@pytest.mark.parametrize(
    ("flag", "binding", "accepted"),
    [
        # The client could bind channels but believes that the broker cannot, which is so (RFC 5802, 6).
        (b"y", b"eSws", True),
        (b"n", b"biws", True),
        (b"y", b"biws", False),
        (b"n", b"eSws", False),
        (b"y", b"cD10bHMtdW5pcXVlLCw=", False),
    ],
)
def test_the_flag_of_channel_binding_must_be_confirmed(flag: bytes, binding: bytes, accepted: bool) -> None:
    server, client = ScramServer(MECHANISM, find), ScramClient(MECHANISM, "user", PASSWORD)
    bare = client.respond(b"").removeprefix(b"n,,")
    final = client.respond(server.respond(flag + b",," + bare)).decode()
    nonce = final.split(",")[1]
    without_proof = f"c={binding.decode()},{nonce}"
    proof = proof_for(server, without_proof)
    if accepted:
        assert server.respond(f"{without_proof},p={proof}".encode()).startswith(b"v=")
        assert server.identity == Identity("user")
    else:
        with pytest.raises(AuthenticationFailed, match="channel binding"):
            server.respond(f"{without_proof},p={proof}".encode())


def proof_for(server: ScramServer, without_proof: str) -> str:
    """The proof of a client that knows the password, for any final message."""
    salted = salted_password(MECHANISM, PASSWORD, CREDENTIAL.salt, CREDENTIAL.iterations)
    client_key = hmac.digest(salted, b"Client Key", MECHANISM.digest)
    exchange = f"{server._client_first},{server._server_first},{without_proof}".encode()
    signature = hmac.digest(CREDENTIAL.stored_key, exchange, MECHANISM.digest)
    return base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()


@pytest.mark.parametrize("flag", [b"p=tls-unique", b"p=tls-server-end-point", b"p=tls-exporter", b"p", b"x"])
def test_channel_binding_is_not_offered_and_not_accepted(flag: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        ScramServer(MECHANISM, find).respond(flag + b",,n=user,r=abc")


def test_a_truncated_first_message_never_authenticates() -> None:
    """A prefix that ends in the nonce is a valid message, but of another exchange."""
    hello = ScramClient(MECHANISM, "user", PASSWORD).respond(b"")
    for size in range(hello.index(b",r=") + 4):
        with pytest.raises(AuthenticationFailed):
            ScramServer(MECHANISM, find).respond(hello[:size])


def test_every_truncation_of_the_final_message_is_refused() -> None:
    server, client = ScramServer(MECHANISM, find), ScramClient(MECHANISM, "user", PASSWORD)
    hello = client.respond(b"")
    final = client.respond(server.respond(hello))
    for size in range(len(final)):
        other = ScramServer(MECHANISM, find)
        other.respond(hello)
        with pytest.raises(AuthenticationFailed):
            other.respond(final[:size])


def test_a_client_refuses_a_broker_that_does_not_know_the_password() -> None:
    client, server = ScramClient(MECHANISM, "user", PASSWORD), ScramServer(MECHANISM, find)
    server.respond(client.respond(b""))
    client_final = client.respond(server._server_first.encode())
    assert client_final
    forged = base64.b64encode(hashlib.sha256(b"forged").digest())
    with pytest.raises(AuthenticationFailed, match="impostor"):
        client.respond(b"v=" + forged)
    assert not client.complete


@pytest.mark.parametrize("iterations", [b"1", b"4095", b"1000001", b"99999999999"])
def test_a_client_refuses_iterations_that_are_weak_or_endless(iterations: bytes) -> None:
    """A downgrade to few iterations would let an attacker compute the password."""
    client = ScramClient(MECHANISM, "user", PASSWORD)
    nonce = client.respond(b"").rpartition(b"r=")[2]
    with pytest.raises(AuthenticationFailed):
        client.respond(b"r=" + nonce + b"x,s=AAAA,i=" + iterations)


def test_a_client_refuses_a_nonce_that_does_not_continue_its_own() -> None:
    client = ScramClient(MECHANISM, "user", PASSWORD)
    nonce = client.respond(b"").rpartition(b"r=")[2]
    for other in (b"r=other,s=AAAA,i=4096", b"r=" + nonce + b",s=AAAA,i=4096"):
        with pytest.raises(AuthenticationFailed):
            ScramClient(MECHANISM, "user", PASSWORD, _nonce=nonce.decode(), _client_first="n").respond(other)
