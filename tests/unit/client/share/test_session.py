from __future__ import annotations

from ruslo.client.share.acknowledgements import SharePartitionId
from ruslo.client.share.session import FetchLimits, ShareSession
from ruslo.machines.share_partition.states import AcknowledgeType
from ruslo.machines.share_partition.values import AcknowledgementBatch
from ruslo.model.errors import ErrorCode
from ruslo.model.ids import random_uuid, uuid_to_text
from ruslo.protocol.messages.share_fetch_request import ShareFetchRequest

ORDERS, BILLS = random_uuid(), random_uuid()
FIRST, SECOND = SharePartitionId("orders", ORDERS, 0), SharePartitionId("orders", ORDERS, 1)
OTHER = SharePartitionId("bills", BILLS, 0)
LIMITS = FetchLimits(max_records=100)
ACCEPT = AcknowledgementBatch(5, 9, (AcknowledgeType.ACCEPT,))
RENEW = AcknowledgementBatch(10, 10, (AcknowledgeType.RENEW,))


def new_session() -> ShareSession:
    return ShareSession("group", uuid_to_text(random_uuid()))


def begun(*partitions: SharePartitionId) -> ShareSession:
    session = new_session()
    session.fetch(partitions, {}, LIMITS)
    session.on_response(ErrorCode.NONE)
    return session


def listed(request: ShareFetchRequest) -> tuple[int, set[tuple[bytes, int]], set[tuple[bytes, int]]]:
    added = {(topic.topic_id, each.partition_index) for topic in request.topics for each in topic.partitions}
    forgotten = {
        (topic.topic_id, each) for topic in request.forgotten_topics_data for each in topic.partitions
    }
    return request.share_session_epoch, added, forgotten


def test_the_first_fetch_lists_all_partitions_and_later_ones_only_changes() -> None:
    session = new_session()
    assert listed(session.fetch([FIRST, SECOND], {}, LIMITS)) == (0, {(ORDERS, 0), (ORDERS, 1)}, set())
    session.on_response(ErrorCode.NONE)
    assert listed(session.fetch([FIRST, SECOND], {}, LIMITS)) == (1, set(), set())
    session.on_response(ErrorCode.NONE)
    assert listed(session.fetch([FIRST, OTHER], {}, LIMITS)) == (2, {(BILLS, 0)}, {(ORDERS, 1)})


def test_a_fetch_carries_acknowledgements() -> None:
    request = begun(FIRST).fetch([FIRST], {FIRST: [ACCEPT]}, LIMITS)
    (batch,) = request.topics[0].partitions[0].acknowledgement_batches
    assert (batch.first_offset, batch.last_offset, batch.acknowledge_types) == (5, 9, [1])


def test_acknowledgements_count_as_requests_of_the_session() -> None:
    session = begun(FIRST)
    request = session.acknowledge({FIRST: [ACCEPT, RENEW]})
    assert (request.share_session_epoch, request.is_renew_ack) == (1, True)
    session.on_response(ErrorCode.NONE)
    assert session.fetch([FIRST], {}, LIMITS).share_session_epoch == 2


def test_a_session_is_closed_with_the_last_acknowledgements() -> None:
    request = begun(FIRST).close({FIRST: [ACCEPT]})
    assert (request.share_session_epoch, request.is_renew_ack) == (-1, False)


def test_a_session_begins_again_after_an_error_of_the_request_and_a_lost_response() -> None:
    for code in (ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH):
        session = begun(FIRST, SECOND)
        session.fetch([FIRST, SECOND], {}, LIMITS)
        session.on_response(code)
        assert session.is_new
        assert listed(session.fetch([FIRST], {}, LIMITS)) == (0, {(ORDERS, 0)}, set())
    session = begun(FIRST)
    session.reset()
    assert listed(session.fetch([FIRST], {}, LIMITS)) == (0, {(ORDERS, 0)}, set())


def test_the_epoch_begins_again_at_one() -> None:
    session = begun(FIRST)
    session._epoch = 2**31 - 1
    session.on_response(ErrorCode.NONE)
    assert session.acknowledge({}).share_session_epoch == 1
