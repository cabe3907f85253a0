from __future__ import annotations

import pytest

from ruslo.client.share.acknowledgements import SharePartitionId
from ruslo.client.share.in_flight import Delivery, InFlight
from ruslo.machines.share_partition.states import AcknowledgeType
from ruslo.machines.share_partition.values import AcknowledgementBatch
from ruslo.model.errors import ConfigError, ErrorCode, KafkaError
from ruslo.model.ids import random_uuid

PARTITION = SharePartitionId("orders", random_uuid(), 0)
ACCEPT, RELEASE, REJECT, RENEW = list(AcknowledgeType)[1:]


def delivered(in_flight: InFlight, *offsets: int) -> list[Delivery]:
    deliveries = [Delivery(PARTITION, 1, offset) for offset in offsets]
    for delivery in deliveries:
        in_flight.deliver(delivery)
    return deliveries


def test_the_next_poll_accepts_implicitly() -> None:
    in_flight = InFlight(explicit=False)
    delivered(in_flight, 5, 6)
    assert in_flight.take_decided() == {}
    in_flight.begin_poll()
    assert in_flight.take_decided() == {1: {PARTITION: [AcknowledgementBatch(5, 6, (ACCEPT,))]}}
    assert in_flight.take_decided() == {}


def test_records_cannot_be_acknowledged_one_by_one_in_implicit_mode() -> None:
    in_flight = InFlight(explicit=False)
    (delivery,) = delivered(in_flight, 5)
    with pytest.raises(ConfigError, match=r"share\.acknowledgement\.mode=explicit"):
        in_flight.acknowledge(delivery, RELEASE)


def test_every_record_must_be_acknowledged_before_the_next_poll_in_explicit_mode() -> None:
    in_flight = InFlight(explicit=True)
    first, second = delivered(in_flight, 5, 6)
    in_flight.acknowledge(first, ACCEPT)
    with pytest.raises(KafkaError, match="orders-0 at offset 6 is not acknowledged"):
        in_flight.begin_poll()
    in_flight.acknowledge(second, REJECT)
    in_flight.begin_poll()
    assert in_flight.take_decided() == {1: {PARTITION: [AcknowledgementBatch(5, 6, (ACCEPT, REJECT))]}}


def test_a_decision_may_be_changed_until_it_is_sent() -> None:
    in_flight = InFlight(explicit=True)
    (delivery,) = delivered(in_flight, 5)
    in_flight.acknowledge(delivery, ACCEPT)
    in_flight.acknowledge(delivery, RELEASE)
    assert in_flight.take_decided() == {1: {PARTITION: [AcknowledgementBatch(5, 5, (RELEASE,))]}}
    with pytest.raises(KafkaError) as caught:
        in_flight.acknowledge(delivery, ACCEPT)
    assert caught.value.code == ErrorCode.INVALID_RECORD_STATE


def test_a_renewed_record_stays_with_the_application() -> None:
    in_flight = InFlight(explicit=True)
    (delivery,) = delivered(in_flight, 5)
    in_flight.acknowledge(delivery, RENEW)
    in_flight.take_decided()
    in_flight.on_outcomes(1, {PARTITION: None})
    in_flight.begin_poll()
    in_flight.acknowledge(delivery, ACCEPT)
    assert in_flight.take_decided() == {1: {PARTITION: [AcknowledgementBatch(5, 5, (ACCEPT,))]}}


def test_a_record_whose_renewal_failed_is_not_the_applications_any_more() -> None:
    in_flight = InFlight(explicit=True)
    (delivery,) = delivered(in_flight, 5)
    in_flight.acknowledge(delivery, RENEW)
    in_flight.take_decided()
    in_flight.on_outcomes(1, {PARTITION: KafkaError(ErrorCode.INVALID_RECORD_STATE)})
    with pytest.raises(KafkaError, match="acknowledged before"):
        in_flight.acknowledge(delivery, ACCEPT)


def test_the_outcomes_of_two_leaders_of_a_partition_are_kept_apart() -> None:
    in_flight = InFlight(explicit=True)
    (lost,) = delivered(in_flight, 5)
    kept = Delivery(PARTITION, 2, 6)
    in_flight.deliver(kept)
    for delivery in (lost, kept):
        in_flight.acknowledge(delivery, RENEW)
    in_flight.take_decided()
    in_flight.on_outcomes(1, {PARTITION: KafkaError(ErrorCode.INVALID_RECORD_STATE)})
    in_flight.on_outcomes(2, {PARTITION: None})
    in_flight.acknowledge(kept, ACCEPT)
    with pytest.raises(KafkaError, match="acknowledged before"):
        in_flight.acknowledge(lost, ACCEPT)
