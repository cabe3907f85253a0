"""Client quotas: precedence, rates over windows, and how long clients wait."""

from __future__ import annotations

import heapq

import pytest

from ruslo.machines.quota import (
    CLIENT_ID,
    FETCH,
    IP,
    MUTATION,
    NO_METERS,
    PRODUCE,
    REQUEST,
    USER,
    ClientQuotas,
    Entity,
    Meter,
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
    quotas = ClientQuotas(WINDOWS, WINDOWS)
    quotas.replace(
        {each: {PRODUCE: float(at)} for at, each in enumerate(PRECEDENCE, 1) if at > most_specific}
    )
    found = quotas.bound(PRODUCE, "alice", "app")
    assert found is not None
    assert found[0] == most_specific + 1


def test_a_quota_of_another_key_does_not_hide_a_less_specific_one() -> None:
    quotas = ClientQuotas(WINDOWS, WINDOWS)
    quotas.replace({entity("alice", "app"): {FETCH: 5.0}, entity("alice"): {PRODUCE: 7.0}})
    assert quotas.bound(PRODUCE, "alice", "app") == (7.0, "alice", None)


def test_clients_of_a_user_share_its_quota_and_default_quotas_are_not_shared_between_users() -> None:
    quotas = ClientQuotas(WINDOWS, WINDOWS)
    quotas.replace({entity(None): {PRODUCE: 100.0}})
    alice = quotas.meters("alice", "a").produce
    assert alice is quotas.meters("alice", "b").produce
    assert alice is not quotas.meters("bob", "a").produce


def test_without_quotas_there_are_no_meters() -> None:
    quotas = ClientQuotas(WINDOWS, WINDOWS)
    assert quotas.meters("alice", "app") is NO_METERS
    quotas.replace({entity("alice"): {PRODUCE: 1.0}})
    assert quotas.active
    assert quotas.meters("bob", "app").produce is None
    quotas.replace({})
    assert not quotas.active


def test_a_client_may_use_ten_windows_at_once() -> None:
    meter = Meter(WINDOWS, 100)
    assert meter.throttle_ms(1000, 0) == 0
    assert meter.throttle_ms(500, 5_000) == 0
    assert meter.throttle_ms(1, 5_000) == 10
    assert meter.throttle_ms(1000, 60_000) == 0


def test_a_client_waits_until_its_usage_is_within_the_quota_again() -> None:
    meter = Meter(WINDOWS, 1000)
    assert meter.throttle_ms(10_000, 0) == 0
    assert meter.throttle_ms(5_000, 0) == 5_000
    meter.unrecord(5_000)
    assert meter.throttle_ms(0, 0) == 0


@pytest.mark.parametrize(
    ("clients", "size", "quota"),
    [
        (1, 64_000, 1_000_000),
        (1, 1_000_000, 100_000),
        (100, 16_384, 10_000_000),
        (1_000, 16_384, 10_000_000),
        (1_000, 1_000_000, 10_000_000),
    ],
)
def test_clients_that_wait_as_they_are_told_keep_their_common_quota(
    clients: int, size: int, quota: int
) -> None:
    meter = Meter(WINDOWS, quota)
    due = [(number % 7, number) for number in range(clients)]
    heapq.heapify(due)
    used, first_ms, last_ms = 0, 0, 400_000
    while due[0][0] < last_ms:
        now_ms, client = heapq.heappop(due)
        # The first windows allow a burst, as in Kafka.
        used += size if now_ms >= 200_000 else 0
        first_ms = first_ms or (now_ms if used else 0)
        heapq.heappush(due, (now_ms + max(meter.throttle_ms(size, now_ms), 1), client))
    assert used / (last_ms - first_ms) * 1000 == pytest.approx(quota, rel=0.02)


def test_what_does_not_fit_is_not_recorded_and_fits_after_the_wait() -> None:
    meter = Meter(WINDOWS, 1000)
    assert meter.admit_ms(8_000, 0) == 0
    assert meter.admit_ms(5_000, 0) == 3_000
    assert meter.admit_ms(2_000, 0) == 0
    assert meter.admit_ms(5_000, 5_000) == 0


def test_more_than_a_burst_is_admitted_once_nothing_is_owed() -> None:
    """A consumer must get a batch that is larger than its quota, or it would never come past it."""
    meter = Meter(WINDOWS, 1000)
    assert meter.admit_ms(1_000_000, 0) == 0
    assert meter.admit_ms(1_000_000, 1_000) == 999_000
    assert meter.admit_ms(1_000_000, 1_000_000) == 0


def test_request_time_beyond_all_windows_is_forgotten() -> None:
    """Each wait is limited, so a client that goes on could otherwise wait for hours after one request."""
    quotas = ClientQuotas(WINDOWS, WINDOWS)
    quotas.replace({entity("alice"): {REQUEST: 10.0, PRODUCE: 10.0}})
    produce, _, request = quotas.meters("alice", "app")
    assert request is not None
    assert request.throttle_ms(100_000, 0) == 11_000
    assert produce is not None
    assert produce.throttle_ms(100_000, 0) == 9_990_000


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
    quotas = ClientQuotas(WINDOWS, WINDOWS)
    assert quotas.mutations("alice", "app", 0) is None
    quotas.replace({entity("alice"): {MUTATION: 2.0}})
    first = quotas.mutations("alice", "app", 0)
    assert first is not None
    assert quotas.mutations("alice", "other", 0) is first
    quotas.replace({entity("alice"): {MUTATION: 3.0}})
    assert quotas.mutations("alice", "app", 0) is not first


def test_mutations_have_windows_of_their_own() -> None:
    quotas = ClientQuotas(WINDOWS, Windows(2, 1000))
    quotas.replace({entity("alice"): {MUTATION: 5.0}})
    bucket = quotas.mutations("alice", "app", 0)
    assert bucket is not None
    bucket.take(11, 0)
    assert bucket.wait_ms(0) == 200


def test_addresses_have_their_own_quota_or_the_default() -> None:
    quotas = ClientQuotas(WINDOWS, WINDOWS)
    assert quotas.connection_rate("10.0.0.1") is None
    rate = "connection_creation_rate"
    quotas.replace({((IP, "10.0.0.1"),): {rate: 5.0}, ((IP, None),): {rate: 2.0}})
    assert quotas.connection_rate("10.0.0.1") == 5
    assert quotas.connection_rate("10.0.0.2") == 2
    quotas.replace({((IP, "2001:db8:0:0:0:0:0:1"),): {rate: 5.0}})
    assert quotas.connection_rate("2001:db8::1") == 5
    assert not quotas.active
