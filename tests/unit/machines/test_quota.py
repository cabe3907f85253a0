"""Client quotas: precedence, rates over windows, and how long clients wait."""

from __future__ import annotations

import pytest

from ruslo.machines.quota import (
    CLIENT_ID,
    FETCH,
    IP,
    MUTATION,
    NO_METERS,
    PRODUCE,
    USER,
    ClientQuotas,
    Entity,
    Meter,
    Rate,
    TokenBucket,
    Windows,
)

WINDOWS = Windows(11, 1000)


def entity(user: str | type | None = object, client_id: str | type | None = object) -> Entity:
    named = []
    if client_id is not object:
        named.append((CLIENT_ID, client_id))
    if user is not object:
        named.append((USER, user))
    return tuple(named)  # type: ignore[arg-type]


PRECEDENCE = [
    entity("alice", "app"),
    entity("alice", None),
    entity("alice"),
    entity(None, "app"),
    entity(None, None),
    entity(None),
    entity(client_id="app"),
    entity(client_id=None),
]


@pytest.mark.parametrize("most_specific", range(len(PRECEDENCE)))
def test_the_most_specific_quota_applies(most_specific: int) -> None:
    quotas = ClientQuotas(WINDOWS)
    quotas.replace(
        {each: {PRODUCE: float(at)} for at, each in enumerate(PRECEDENCE, 1) if at > most_specific}
    )
    found = quotas.bound(PRODUCE, "alice", "app")
    assert found is not None
    assert found[0] == most_specific + 1


def test_a_quota_of_another_key_does_not_hide_a_less_specific_one() -> None:
    quotas = ClientQuotas(WINDOWS)
    quotas.replace({entity("alice", "app"): {FETCH: 5.0}, entity("alice"): {PRODUCE: 7.0}})
    assert quotas.bound(PRODUCE, "alice", "app") == (7.0, "alice", None)


def test_clients_of_a_user_share_its_quota_and_default_quotas_are_not_shared_between_users() -> None:
    quotas = ClientQuotas(WINDOWS)
    quotas.replace({entity(None): {PRODUCE: 100.0}})
    alice = quotas.meters("alice", "a").produce
    assert alice is quotas.meters("alice", "b").produce
    assert alice is not quotas.meters("bob", "a").produce


def test_without_quotas_there_are_no_meters() -> None:
    quotas = ClientQuotas(WINDOWS)
    assert quotas.meters("alice", "app") is NO_METERS
    quotas.replace({entity("alice"): {PRODUCE: 1.0}})
    assert quotas.active
    assert quotas.meters("bob", "app").produce is None
    quotas.replace({})
    assert not quotas.active


def test_a_rate_covers_ten_windows_from_the_first_amount_on() -> None:
    rate = Rate(WINDOWS)
    rate.record(1000, 0)
    assert rate.measure(0) == 100
    rate.record(1000, 5_000)
    assert rate.measure(5_000) == 200
    assert rate.measure(10_999) == pytest.approx(2000 / 10.999)
    assert rate.measure(11_000) == pytest.approx(100)
    assert rate.measure(60_000) == 0


def test_a_client_waits_until_its_rate_is_the_quota_again() -> None:
    meter = Meter(WINDOWS)
    meter.bound = 1000
    assert meter.throttle_ms(10_000, 0) == 0
    assert meter.throttle_ms(5_000, 0) == 5_000
    meter.unrecord(5_000, 0)
    assert meter.throttle_ms(0, 0) == 0


def test_a_client_that_waits_as_it_is_told_keeps_the_quota() -> None:
    meter = Meter(WINDOWS)
    meter.bound = 1_000_000
    now_ms, sent = 0, 0
    # The first windows allow a burst, as in Kafka.
    while now_ms < 140_000:
        sent += 64_000 if now_ms >= 20_000 else 0
        now_ms += meter.throttle_ms(64_000, now_ms) or 1
    assert sent / 120 == pytest.approx(1_000_000, rel=0.05)


def test_a_token_bucket_earns_tokens_up_to_its_burst() -> None:
    bucket = TokenBucket(Windows(2, 1000), bound=5, now_ms=0)
    bucket.take(10, 0)
    assert bucket.wait_ms(0) == 0
    bucket.take(1, 0)
    assert bucket.wait_ms(0) == 200
    assert bucket.wait_ms(200) == 0
    bucket.take(-5, 200)
    bucket.take(100, 100_000)
    assert bucket.wait_ms(100_000) == 18_000


def test_mutations_share_a_bucket_and_a_changed_quota_starts_again() -> None:
    quotas = ClientQuotas(WINDOWS)
    assert quotas.mutations("alice", "app", 0) is None
    quotas.replace({entity("alice"): {MUTATION: 2.0}})
    first = quotas.mutations("alice", "app", 0)
    assert first is not None
    assert quotas.mutations("alice", "other", 0) is first
    quotas.replace({entity("alice"): {MUTATION: 3.0}})
    assert quotas.mutations("alice", "app", 0) is not first


def test_addresses_have_their_own_quota_or_the_default() -> None:
    quotas = ClientQuotas(WINDOWS)
    assert quotas.connection_rate("10.0.0.1") is None
    rate = "connection_creation_rate"
    quotas.replace({((IP, "10.0.0.1"),): {rate: 5.0}, ((IP, None),): {rate: 2.0}})
    assert quotas.connection_rate("10.0.0.1") == 5
    assert quotas.connection_rate("10.0.0.2") == 2
    assert not quotas.active
