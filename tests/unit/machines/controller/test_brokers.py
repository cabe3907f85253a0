"""Broker registrations: which ones are accepted. The transcripts cover the rest of a broker's life cycle."""

from __future__ import annotations

import pytest

from ruslo.machines.controller.events import BrokerGone
from ruslo.machines.controller.features import SUPPORTED_FEATURES
from ruslo.machines.machine import TimerFired
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import UNASSIGNED_DIR
from ruslo.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from ruslo.protocol.messages.broker_registration_request import BrokerRegistrationRequest
from ruslo.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from ruslo.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from tests.support.machines.controller_bench import MachineBench, numbered_uuid, registration
from tests.unit.machines.controller.requests import create_topic


def of_another_cluster() -> BrokerRegistrationRequest:
    request = registration(5)
    request.cluster_id = "elsewhere"
    return request


def with_dirs(*dirs: bytes) -> BrokerRegistrationRequest:
    request = registration(5)
    request.log_dirs = list(dirs)
    return request


def migrating() -> BrokerRegistrationRequest:
    request = registration(5)
    request.is_migrating_zk_broker = True
    return request


def without(feature: str) -> dict[str, tuple[int, int]]:
    return {name: span for name, span in SUPPORTED_FEATURES.items() if name != feature}


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (of_another_cluster(), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (registration(1, incarnation="b"), ErrorCode.DUPLICATE_BROKER_REGISTRATION),
        (with_dirs(), ErrorCode.INVALID_REGISTRATION),
        (with_dirs(numbered_uuid(1), numbered_uuid(1)), ErrorCode.INVALID_REGISTRATION),
        (with_dirs(UNASSIGNED_DIR), ErrorCode.INVALID_REGISTRATION),
        (with_dirs(numbered_uuid(100)), ErrorCode.INVALID_REGISTRATION),
        (migrating(), ErrorCode.BROKER_ID_NOT_REGISTERED),
        (registration(5, features={}), ErrorCode.INVALID_REGISTRATION),
        (registration(5, features={"metadata.version": (7, 29)}), ErrorCode.UNSUPPORTED_VERSION),
        (registration(5, features=without("transaction.version")), ErrorCode.UNSUPPORTED_VERSION),
        (registration(5, features=without("kraft.version")), ErrorCode.UNSUPPORTED_VERSION),
        (registration(5), ErrorCode.NONE),
        (registration(1), ErrorCode.NONE),
    ],
)
def test_registration(request_: BrokerRegistrationRequest, code: ErrorCode) -> None:
    bench = MachineBench.started()
    assert bench.code(request_) is code


def test_new_incarnation_registers_after_the_session_expires() -> None:
    bench = MachineBench.started()
    bench.join(2)
    bench.wait(8999)
    assert bench.code(registration(2, incarnation="b")) is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    bench.wait(1)
    assert bench.image.cluster.brokers[2].fenced
    assert bench.code(registration(2, incarnation="b")) is ErrorCode.NONE


def test_fencing_is_retried_after_a_failed_append() -> None:
    """A full disk rejects an append, so the records of that decision are never replayed."""
    bench = MachineBench.started(2)
    gone = BrokerGone(2, bench.image.cluster.brokers[2].epoch)
    assert bench.machine.handle(gone, bench.now).records != ()
    assert bench.code(registration(2, incarnation="b")) is ErrorCode.NONE, (
        "the session is over even without the fencing record"
    )
    bench.heartbeat(2)
    for _ in range(4):
        bench.now_ms += 2_250
        bench.heartbeat(1)
    assert bench.machine.handle(TimerFired(), bench.now).records != ()
    assert bench.image.cluster.brokers[2].active
    bench.wait(2_000)
    assert bench.image.cluster.brokers[2].fenced
    assert bench.image.cluster.brokers[1].active


def test_new_controller_grants_full_sessions_except_to_its_own_node() -> None:
    bench = MachineBench.started(2)
    bench.now_ms = 1_000_000
    bench.activate()
    assert bench.code(registration(2, incarnation="b")) is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert bench.code(registration(1, incarnation="b")) is ErrorCode.NONE
    assert bench.wait(8999) == []
    assert bench.image.cluster.brokers[2].active
    bench.wait(2000)
    assert bench.image.cluster.brokers[2].fenced


def test_broker_epoch_is_the_first_offset_of_the_batch() -> None:
    bench = MachineBench.started()
    create_topic(bench, 3, 1)
    bench.activate()
    next_offset = len(bench.log)
    response = bench.respond(registration(1, incarnation="b"), BrokerRegistrationResponse)
    assert response.broker_epoch == next_offset
    assert len(bench.log) == next_offset + 4, "three partitions left without a leader, then the registration"
    # A broker has caught up once it has replayed its own registration.
    assert not bench.heartbeat(1, offset=next_offset).is_caught_up
    assert bench.heartbeat(1, offset=next_offset + 3).is_caught_up


def test_heartbeat_of_an_unregistered_broker() -> None:
    bench = MachineBench.started()
    assert (
        bench.code(BrokerHeartbeatRequest(broker_id=9, broker_epoch=1)) is ErrorCode.BROKER_ID_NOT_REGISTERED
    )
    assert bench.code(BrokerHeartbeatRequest(broker_id=1, broker_epoch=1)) is ErrorCode.STALE_BROKER_EPOCH


def test_unregister() -> None:
    bench = MachineBench.started(2)
    create_topic(bench, 1, 2)
    bench.submit(UnregisterBrokerRequest(broker_id=2))
    assert list(bench.image.cluster.brokers) == [1]
    assert bench.image.topics.by_name["t"].partitions[0].isr == (1,)
    with pytest.raises(KafkaError, match="not registered"):
        bench.submit(UnregisterBrokerRequest(broker_id=2))
