"""Kafka Streams with ``exactly_once_v2`` on three nodes: killed at random, it counts every input once."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Message
from confluent_kafka.admin import AdminClient

from ruslo.testing import EmbeddedCluster
from tests.interop.conftest import TopicMaker
from tests.support.clients.workers import Workers
from tests.support.groups.group_members import GROUP_NODE_PROPERTIES
from tests.support.tools.kafka_jars import support_java_command
from tests.support.tools.programs import require_tool
from tests.support.txns.transactional_clients import Feed, committed_messages

PARTITIONS = 4
INSTANCES = 2
WORDS = [f"word-{number}" for number in range(50)]
KILLS = 6
DRAINED_WITHIN_S = 180


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with EmbeddedCluster(properties=GROUP_NODE_PROPERTIES) as cluster:
        yield cluster.bootstrap


@pytest.fixture(scope="module")
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


def counts_by_word(messages: list[Message], decode: Callable[[bytes], int]) -> dict[str, list[int]]:
    """The counts written for each word, in the order of its partition."""
    counts: dict[str, list[int]] = {}
    for message in messages:
        key, value = message.key(), message.value()
        assert key is not None
        assert value is not None
        counts.setdefault(key.decode(), []).append(decode(value))
    return counts


def test_every_input_is_counted_once(
    bootstrap: str, new_topic: TopicMaker, group: str, tmp_path: Path
) -> None:
    require_tool("java")
    source, target = new_topic(PARTITIONS), new_topic(PARTITIONS)
    log = tmp_path / "streams.log"

    def start(slot: int) -> subprocess.Popen[bytes]:
        arguments = (bootstrap, group, source, target, str(tmp_path / f"state-{slot}"))
        command = support_java_command("CountingStreams", *arguments)
        with log.open("ab") as out:
            return subprocess.Popen(command, stdout=out, stderr=out)

    def written() -> dict[str, list[int]]:
        return counts_by_word(committed_messages(bootstrap, target, PARTITIONS), int)

    def number_written() -> int:
        return sum(map(len, written().values()))

    chance = random.Random(20_890)
    with Workers(INSTANCES, start) as instances, Feed(bootstrap, source, WORDS, chance) as feed:
        instances.fill_up()
        before = 0
        while instances.kills < KILLS:
            _wait_for(before + 1, number_written, instances)
            time.sleep(chance.uniform(0, 3))
            before = number_written()
            slot = chance.choice(instances.slots)
            instances.kill(slot)
            if chance.random() < 0.3:
                # The instance moves to another machine: a new name, and the store is restored from the
                # changelog.
                shutil.rmtree(tmp_path / f"state-{slot}", ignore_errors=True)
            time.sleep(chance.uniform(0, 1))
            instances.start(slot)
        sent = Counter(feed.stop())
        _wait_for(sum(sent.values()), number_written, instances)
        for slot in instances.slots:
            instances.leave(slot)

    expected = {word: list(range(1, count + 1)) for word, count in sent.items()}
    assert written() == expected
    changelog = committed_messages(bootstrap, f"{group}-counts-changelog", PARTITIONS)
    assert counts_by_word(changelog, lambda value: struct.unpack(">q", value)[0]) == expected


def _wait_for(expected: int, number_written: Callable[[], int], instances: Workers) -> None:
    deadline = time.monotonic() + DRAINED_WITHIN_S
    while (number := number_written()) < expected:
        instances.check_alive()
        assert time.monotonic() < deadline, f"no progress: {number} of {expected} are written"
        time.sleep(0.3)
