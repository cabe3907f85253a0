"""The native share consumer with Ruslo, and with Apache Kafka under ``--target=kafka``."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import suppress

import pytest

import ruslo
from ruslo.client.share.async_share_consumer import CommitResult
from tests.support.brokers.node import Node
from tests.support.share.share_node import (
    LOCK_MS,
    new_share_group,
    new_topic,
    send,
)

Records = list[ruslo.ShareRecord[bytes | None, bytes | None]]
EXPLICIT = {"share.acknowledgement.mode": "explicit"}


@pytest.fixture(scope="module")
def bootstrap(share_node: Node) -> str:
    return share_node.bootstrap


def consumer(
    bootstrap: str, group: str, topic: str, **settings: str | int
) -> ruslo.ShareConsumer[bytes | None, bytes | None]:
    config = {name.replace("_", "."): value for name, value in settings.items()}
    found = ruslo.ShareConsumer({"bootstrap.servers": bootstrap, "group.id": group, **config})
    found.subscribe([topic])
    return found


def explicit(bootstrap: str, group: str, topic: str) -> ruslo.ShareConsumer[bytes | None, bytes | None]:
    return consumer(bootstrap, group, topic, share_acknowledgement_mode="explicit")


def poll(member: ruslo.ShareConsumer[bytes | None, bytes | None], timeout_s: float = 30) -> Records:
    """The next records; fails the test without any."""
    records = member.poll(timeout_s)
    assert records, "no record was delivered"
    return records


def values(records: Records) -> list[str]:
    return [(record.value or b"").decode() for record in records]


def test_records_go_to_one_member_and_are_accepted_by_the_next_poll(bootstrap: str) -> None:
    topic, group = new_topic(bootstrap, 3), new_share_group(bootstrap)
    sent = [str(number) for number in range(300)]
    send(bootstrap, topic, sent)
    seen: Counter[str] = Counter()
    with consumer(bootstrap, group, topic) as first, consumer(bootstrap, group, topic) as second:
        while len(seen) < len(sent):
            for member in (first, second):
                records = member.poll(1)
                seen.update(values(records))
                assert {record.delivery_count for record in records} <= {1}
    assert seen == Counter(sent)
    with consumer(bootstrap, group, topic) as late:
        send(bootstrap, topic, ["last"])
        assert values(poll(late)) == ["last"]


def test_more_members_than_partitions_share_one_partition(bootstrap: str) -> None:
    topic, group = new_topic(bootstrap), new_share_group(bootstrap)
    limits: dict[str, str | int] = {"max_poll_records": 1, "share_acquire_mode": "record_limit"}
    members = [consumer(bootstrap, group, topic, **limits) for _ in range(3)]
    try:
        send(bootstrap, topic, [str(number) for number in range(20)])
        held = [values(poll(member)) for member in members]
        assert len({value for records in held for value in records}) == 3
    finally:
        for member in members:
            member.close()


def test_a_released_record_is_delivered_again_below_later_offsets(bootstrap: str) -> None:
    topic, group = new_topic(bootstrap), new_share_group(bootstrap)
    send(bootstrap, topic, "abc")
    with explicit(bootstrap, group, topic) as member:
        first = poll(member)
        assert values(first) == ["a", "b", "c"]
        first[0].release()
        first[1].reject()
        first[2].accept()
        (again,) = poll(member)
        assert (again.value, again.offset, again.delivery_count) == (b"a", 0, 2)
        again.accept()
        assert set(member.commit().values()) <= {None}
        send(bootstrap, topic, "d")
        (later,) = poll(member)
        assert later.value == b"d"
        later.accept()


def test_commit_reports_each_partition(bootstrap: str) -> None:
    topic, group = new_topic(bootstrap, 2), new_share_group(bootstrap)
    for partition in (0, 1):
        send(bootstrap, topic, "a", partition=partition)
    partitions = {ruslo.TopicPartition(topic, 0), ruslo.TopicPartition(topic, 1)}
    with explicit(bootstrap, group, topic) as member:
        results: CommitResult = {}
        while results.keys() != partitions:
            for record in poll(member):
                record.accept()
            results |= member.commit()
        assert results == dict.fromkeys(partitions)
        assert member.commit() == {}


def test_a_renewed_record_outlives_its_lock(bootstrap: str) -> None:
    topic, group = new_topic(bootstrap), new_share_group(bootstrap)
    send(bootstrap, topic, "a")
    with explicit(bootstrap, group, topic) as member, consumer(bootstrap, group, topic) as other:
        (record,) = poll(member)
        assert member.acquisition_lock_timeout_ms == LOCK_MS
        deadline = time.monotonic() + 1.5 * LOCK_MS / 1000
        while time.monotonic() < deadline:
            record.renew()
            assert set(member.commit().values()) == {None}
            assert other.poll(LOCK_MS / 4000) == []
        record.accept()
        assert set(member.commit().values()) == {None}


def test_an_expired_lock_is_reported_and_another_member_gets_the_record(bootstrap: str) -> None:
    topic, group = new_topic(bootstrap), new_share_group(bootstrap)
    send(bootstrap, topic, "a")
    with explicit(bootstrap, group, topic) as slow, consumer(bootstrap, group, topic) as other:
        (record,) = poll(slow)
        (again,) = poll(other)
        assert again.delivery_count == 2
        record.accept()
        (error,) = slow.commit().values()
        assert error is not None
        assert error.code == ruslo.ErrorCode.INVALID_RECORD_STATE


def test_records_of_a_failed_block_are_released_at_once(bootstrap: str) -> None:
    topic, group = new_topic(bootstrap), new_share_group(bootstrap, share_record_lock_duration_ms="30000")
    send(bootstrap, topic, "abc")
    with suppress(ZeroDivisionError), consumer(bootstrap, group, topic) as member:
        for record in member:
            assert record.value != b"c", "the block has ended"
            if record.value == b"b":
                raise ZeroDivisionError
    with consumer(bootstrap, group, topic) as member:
        assert [(r.value, r.delivery_count) for r in poll(member)] == [(b"b", 2), (b"c", 2)]


def test_a_record_that_cannot_be_decoded_is_released(bootstrap: str) -> None:
    topic, group = new_topic(bootstrap), new_share_group(bootstrap)
    send(bootstrap, topic, ["1", "x", "2"])

    def to_int(data: bytes | None) -> int:
        return int(data or b"")

    config = {"bootstrap.servers": bootstrap, "group.id": group}
    with ruslo.ShareConsumer(config, value_deserializer=to_int) as member:
        member.subscribe([topic])
        assert [record.value for record in member.poll(30)] == [1]
        with pytest.raises(ruslo.UndecodableRecord, match=r"at offset 1 cannot be decoded.*released"):
            member.poll(30)
        assert [record.value for record in member.poll(30)] == [2]


def test_records_of_aborted_transactions_and_markers_are_skipped(bootstrap: str) -> None:
    topic = new_topic(bootstrap)
    group = new_share_group(bootstrap, share_isolation_level="read_committed")
    settings = {"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-producer"}
    with ruslo.Producer(settings) as producer:
        with producer.transaction():
            producer.send(topic, "kept")
        with suppress(ZeroDivisionError), producer.transaction():
            producer.send(topic, "dropped")
            raise ZeroDivisionError
        with producer.transaction():
            producer.send(topic, "also kept")
    with consumer(bootstrap, group, topic) as member:
        seen: list[str] = []
        while len(seen) < 2:
            seen += values(poll(member))
        assert seen == ["kept", "also kept"]
        send(bootstrap, topic, ["end"])
        assert values(poll(member)) == ["end"]


def test_a_consumer_survives_a_restart_of_the_broker(share_node: Node) -> None:
    node = share_node
    topic, group = new_topic(node.bootstrap, 2), new_share_group(node.bootstrap)
    send(node.bootstrap, topic, "abc")
    with consumer(node.bootstrap, group, topic) as member:
        seen: list[str] = []
        while len(seen) < 3:
            seen += values(poll(member))
        member.commit()
        node.stop()
        node.start()
        send(node.bootstrap, topic, "def")
        while len(seen) < 6:
            seen += values(poll(member))
        assert sorted(seen) == list("abcdef")


def test_a_topic_is_read_as_soon_as_it_exists(bootstrap: str) -> None:
    group = new_share_group(bootstrap)
    existing, later = new_topic(bootstrap), new_topic(bootstrap)
    with consumer(bootstrap, group, existing) as member:
        member.subscribe([existing, later])
        assert member.subscription() == {existing, later}
        send(bootstrap, later, "a")
        assert values(poll(member)) == ["a"]
        member.unsubscribe()
        with pytest.raises(ruslo.ConfigError, match="no subscription"):
            member.poll(0)


def test_a_member_that_does_not_poll_gives_its_records_back(bootstrap: str) -> None:
    topic, group = new_topic(bootstrap), new_share_group(bootstrap, share_record_lock_duration_ms="60000")
    send(bootstrap, topic, "a")
    with consumer(bootstrap, group, topic, max_poll_interval_ms=1000) as idle:
        assert values(poll(idle)) == ["a"]
        with consumer(bootstrap, group, topic) as other:
            assert values(poll(other)) == ["a"]
        send(bootstrap, topic, "b")
        assert values(poll(idle)) == ["b"]


def test_results_of_acknowledgements_reach_the_callback(bootstrap: str) -> None:
    topic, group = new_topic(bootstrap), new_share_group(bootstrap)
    send(bootstrap, topic, "a")
    results: list[CommitResult] = []
    config = {"bootstrap.servers": bootstrap, "group.id": group}
    with ruslo.ShareConsumer(config, on_acknowledged=results.append) as member:
        member.subscribe([topic])
        poll(member)
        member.commit_async()
        while not results:
            member.poll(0.2)
    assert results[0] == {ruslo.TopicPartition(topic, 0): None}


async def test_the_asynchronous_consumer_reads_and_commits(bootstrap: str) -> None:
    topic = await asyncio.to_thread(new_topic, bootstrap)
    group = await asyncio.to_thread(new_share_group, bootstrap)
    await asyncio.to_thread(send, bootstrap, topic, "abc")
    config = {"bootstrap.servers": bootstrap, "group.id": group, **EXPLICIT}
    async with ruslo.AsyncShareConsumer(config) as member:
        await member.subscribe([topic])
        seen = []
        async for record in member:
            seen.append(record.value)
            record.accept()
            if len(seen) == 3:
                break
        assert await member.commit() == {ruslo.TopicPartition(topic, 0): None}
    assert seen == [b"a", b"b", b"c"]
