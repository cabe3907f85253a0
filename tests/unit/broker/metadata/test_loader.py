"""The metadata loader: which subscribers are notified, and when."""

from __future__ import annotations

import asyncio
import logging

import pytest

from ruslo.broker.metadata.loader import MetadataLoader
from ruslo.machines.controller.delta import MetadataDelta
from ruslo.machines.controller.image import MetadataImage
from ruslo.protocol.messages.config_record import ConfigRecord
from ruslo.protocol.messages.no_op_record import NoOpRecord
from ruslo.protocol.messages.remove_topic_record import RemoveTopicRecord
from ruslo.protocol.messages.topic_record import TopicRecord
from tests.support.machines.controller_bench import numbered_uuid

A = TopicRecord(name="a", topic_id=numbered_uuid(1))
B = TopicRecord(name="b", topic_id=numbered_uuid(2))


class Notifications:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, delta: MetadataDelta, image: MetadataImage) -> None:
        created = [topic.name for topic in delta.created_topics.values()]
        deleted = [topic.name for topic in delta.deleted_topics.values()]
        self.lines.append(f"{image.offset}: +{created} -{deleted}")


def test_subscribers_are_notified_of_every_change() -> None:
    driver, early, late = MetadataLoader(), Notifications(), Notifications()
    driver.subscribe(early)
    driver.handle_commit(0, 1, [A])
    driver.handle_commit(1, 1, [NoOpRecord()])
    driver.handle_commit(2, 1, [B, RemoveTopicRecord(topic_id=A.topic_id)])
    assert early.lines == ["0: +['a'] -[]", "3: +['b'] -['a']"]
    driver.subscribe(late)
    assert late.lines == ["3: +['b'] -[]"], "a late subscriber is notified of the whole image at once"
    assert (driver.image.offset, driver.image.epoch) == (3, 1)


def test_snapshot_is_delivered_as_a_delta() -> None:
    driver, result = MetadataLoader(), Notifications()
    driver.handle_commit(0, 1, [A])
    driver.subscribe(result)
    config = ConfigRecord(resource_type=2, resource_name="b", name="k", value="v")
    list(driver.handle_snapshot(50, 3, [B, config]))
    assert result.lines == ["0: +['a'] -[]", "49: +['b'] -['a']"]
    assert driver.image.epoch == 3
    assert [type(record).__name__ for record, _ in driver.snapshot_records()] == [
        "TopicRecord",
        "ConfigRecord",
    ]


async def test_waiting_for_an_offset() -> None:
    driver = MetadataLoader()
    waiting = [asyncio.create_task(driver.wait_for(offset)) for offset in (2, 0, 1)]
    abandoned = asyncio.create_task(driver.wait_for(1))
    await asyncio.sleep(0)
    abandoned.cancel()
    driver.handle_commit(0, 1, [A, B])
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [each.done() for each in waiting] == [False, True, True]
    driver.handle_commit(2, 1, [NoOpRecord()])
    await asyncio.gather(*waiting)
    await driver.wait_for(2)


def test_failing_subscriber_does_not_affect_the_others(caplog: pytest.LogCaptureFixture) -> None:
    def failing(delta: MetadataDelta, image: MetadataImage) -> None:
        raise OSError("no space")

    driver, result = MetadataLoader(), Notifications()
    driver.subscribe(failing)
    driver.subscribe(result)
    with caplog.at_level(logging.ERROR):
        driver.handle_commit(0, 1, [A])
    assert result.lines == ["0: +['a'] -[]"]
    assert "no space" in caplog.text


def test_leader_change() -> None:
    driver = MetadataLoader()
    assert driver.leader_id == -1
    driver.handle_leader_change(3, 7)
    assert driver.leader_id == 3


def test_incomplete_snapshot_has_no_effect() -> None:
    driver, result = MetadataLoader(), Notifications()
    driver.handle_commit(0, 1, [A])
    driver.subscribe(result)
    topics = [TopicRecord(name=f"t{number}", topic_id=numbered_uuid(100 + number)) for number in range(2500)]
    count = 0
    for _ in driver.handle_snapshot(9000, 3, topics):
        count += 1
        assert list(driver.image.topics.by_name) == ["a"]
        assert driver.image.offset == 0
    assert count == len(topics)
    assert len(driver.image.topics.by_name) == len(topics)
    assert len(result.lines) == 2


def test_abandoned_snapshot_has_no_effect() -> None:
    driver = MetadataLoader()
    driver.handle_commit(0, 1, [A])
    unfinished = driver.handle_snapshot(
        50, 3, [TopicRecord(name=f"t{number}", topic_id=numbered_uuid(number)) for number in range(1500)]
    )
    next(unfinished)
    list(driver.handle_snapshot(60, 4, [B]))
    assert list(driver.image.topics.by_name) == ["b"]
    assert (driver.image.offset, driver.image.epoch) == (59, 4)
