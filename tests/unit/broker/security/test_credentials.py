"""The SCRAM accounts that a broker makes up for users that do not exist."""

from __future__ import annotations

import base64
from functools import partial

import pytest

from ruslo.broker.metadata.loader import MetadataLoader
from ruslo.broker.security.credentials import Credentials
from ruslo.model.clock import SystemClock
from ruslo.model.scram import ScramMechanism
from ruslo.model.secret import Secret
from ruslo.net.sasl.mechanism import AuthenticationFailed
from ruslo.net.sasl.scram import ScramServer
from ruslo.protocol.messages.user_scram_credential_record import UserScramCredentialRecord
from tests.support.checks.crypto_work import crypto_calls

MECHANISM = ScramMechanism.SCRAM_SHA_256
KEY = Secret("token-secret")


def record(name: str, iterations: int = 8192) -> UserScramCredentialRecord:
    return UserScramCredentialRecord(
        name=name,
        mechanism=MECHANISM.value,
        salt=b"salt",
        stored_key=b"stored " + name.encode(),
        server_key=b"server " + name.encode(),
        iterations=iterations,
    )


def broker(
    *records: UserScramCredentialRecord, key: Secret | None = None
) -> tuple[MetadataLoader, Credentials]:
    metadata = MetadataLoader()
    credentials = Credentials(metadata, key, SystemClock())
    metadata.handle_commit(0, 0, records)
    return metadata, credentials


def salt(credentials: Credentials, user: str, mechanism: ScramMechanism = MECHANISM) -> bytes:
    account = credentials.finder(mechanism)(user, False)
    assert not account.exists
    return account.credential.salt


def test_all_brokers_make_up_the_same_salt() -> None:
    for key in (None, KEY):
        _, first = broker(record("alice"), record("bob"), key=key)
        _, second = broker(record("bob"), record("alice"), key=key)
        assert salt(first, "nowhere") == salt(second, "nowhere")
        salts = [salt(first, user, each) for user in ("nowhere", "ghost") for each in ScramMechanism]
        assert len(set(salts)) == len(salts)


def test_the_salt_stays_when_users_change_if_there_is_a_key_of_tokens() -> None:
    for key, stays in ((None, False), (KEY, True)):
        metadata, credentials = broker(record("alice"), key=key)
        before = salt(credentials, "nowhere")
        metadata.handle_commit(1, 0, [record("bob")])
        assert (salt(credentials, "nowhere") == before) is stays


def test_an_unknown_user_takes_the_same_work_as_a_wrong_password() -> None:
    """From the first message to the failure, for each mechanism; counted, because times are noise."""
    _, credentials = broker(record("alice"), key=KEY)
    for user in ("alice", "nowhere"):
        # The salts of unknown users are computed after users change, for the next log-in of any user.
        log_in(credentials, user)
    works = {user: crypto_calls(partial(log_in, credentials, user)) for user in ("alice", "nowhere")}
    assert works["alice"] == works["nowhere"]
    assert "compare_digest" in works["alice"]


def log_in(credentials: Credentials, user: str) -> None:
    server = ScramServer(MECHANISM, credentials.finder(MECHANISM))
    first = server.respond(f"n,,n={user},r=nonce".encode())
    nonce = first.split(b",")[0]
    proof = base64.b64encode(bytes(32))
    with pytest.raises(AuthenticationFailed, match="unknown user"):
        server.respond(b"c=biws," + nonce + b",p=" + proof)


def test_an_unknown_user_has_the_iterations_of_most_users() -> None:
    _, credentials = broker(record("alice", 4096), record("bob"), record("carol"))
    iterations = [credentials.finder(each)("nowhere", False).credential.iterations for each in ScramMechanism]
    assert iterations == [8192, 4096]
