"""DeleteGroups with share groups: the states go first."""

from __future__ import annotations

from ruslo.machines.groups.share.events import DeleteShareState
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.delete_groups_request import DeleteGroupsRequest
from ruslo.protocol.messages.delete_groups_response import DeleteGroupsResponse
from tests.support.groups.consumer_transcript import Consumer
from tests.support.groups.share_transcript import ShareConsumer, ShareTranscript, with_group


def delete(transcript: ShareTranscript, *groups: str) -> int:
    transcript.step(f"{' '.join(groups)} is deleted")
    token = transcript.bench.send(DeleteGroupsRequest(groups_names=list(groups)))
    transcript.show()
    return token


def result(transcript: ShareTranscript, token: int) -> dict[str, str]:
    response = transcript.bench.response(token, DeleteGroupsResponse)
    assert all(bool(each.error_message) is bool(each.error_code) for each in response.results)
    return {each.group_id: ErrorCode(each.error_code).name for each in response.results}


def test_a_group_is_deleted_after_its_states() -> None:
    transcript = with_group("orders", "parcels")
    token = delete(transcript, "g")
    assert transcript.bench.is_parked(token)
    transcript.answer()
    assert result(transcript, token) == {"g": "NONE"}
    assert transcript.text == (
        """\
> g is deleted
15 deleting orders parcels
delete orders:0,1,2,3 parcels:0,1
> the share coordinator responds
x12
x15
x11
"""
    )
    assert transcript.bench.shard.state.groups == {}


def test_a_group_whose_states_stay_is_not_deleted_but_can_be_later() -> None:
    transcript = with_group("orders")
    token = delete(transcript, "g")
    transcript.answer(ErrorCode.NOT_COORDINATOR, orders=[3])
    assert result(transcript, token) == {"g": "NOT_COORDINATOR"}
    token = delete(transcript, "g")
    assert transcript.lines[-1] == "delete orders:0,1,2,3"
    transcript.answer()
    assert result(transcript, token) == {"g": "NONE"}


def test_groups_of_all_types_are_deleted_together() -> None:
    transcript = with_group("orders", group="s1")
    with_group("parcels", group="s2", transcript=transcript)
    transcript.group = "c"
    consumer = Consumer(transcript, "c", "orders")
    consumer.join()
    consumer.leave()
    transcript.group = "full"
    ShareConsumer(transcript, "b", "orders").join()
    transcript.answer()
    token = delete(transcript, "s1", "c", "absent", "full", "s2", "s1")
    assert len(transcript.bench.queries) == 2
    transcript.answer(ErrorCode.COORDINATOR_NOT_AVAILABLE, parcels=[0])
    assert result(transcript, token) == {
        "s1": "NONE",
        "c": "NONE",
        "absent": "GROUP_ID_NOT_FOUND",
        "full": "NON_EMPTY_GROUP",
        "s2": "COORDINATOR_NOT_AVAILABLE",
    }


def test_a_group_without_states_is_deleted_at_once() -> None:
    transcript = with_group("absent")
    assert result(transcript, delete(transcript, "g")) == {"g": "NONE"}
    assert transcript.bench.queries == []


def test_a_member_that_joins_meanwhile_keeps_the_group() -> None:
    transcript = with_group("orders")
    token = delete(transcript, "g")
    ShareConsumer(transcript, "b", "orders").join()
    transcript.bench.queries = [
        each for each in transcript.bench.queries if isinstance(each, DeleteShareState)
    ]
    transcript.answer()
    assert result(transcript, token) == {"g": "NON_EMPTY_GROUP"}


def test_states_of_deleted_topics_are_not_deleted_again() -> None:
    transcript = with_group("orders", "parcels")
    transcript.bench.topics = transcript.bench.topics.without("orders")
    transcript.reload()
    delete(transcript, "g")
    assert transcript.lines[-1] == "delete parcels:0,1"


def test_a_deletion_that_cannot_be_written_fails() -> None:
    transcript = with_group("orders")
    transcript.bench.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    token = delete(transcript, "g")
    response = transcript.bench.response(token, DeleteGroupsResponse)
    assert [each.error_code for each in response.results] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert transcript.bench.queries == []
