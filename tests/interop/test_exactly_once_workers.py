"""Consume, transform, produce: workers of one group are killed, leave and rejoin; no record is copied twice.

Two of the workers use librdkafka (transaction version 1) and two the Java client (version 2), in the same
group, with either group protocol.
"""

from __future__ import annotations

import random
import subprocess
import time
from collections import Counter

import pytest
from confluent_kafka.admin import AdminClient

from tests.interop.conftest import TopicMaker
from tests.support.clients.workers import Workers
from tests.support.groups.group_members import Protocol, short_session
from tests.support.tools.kafka_jars import support_java_command
from tests.support.tools.programs import require_tool
from tests.support.txns.transactional_clients import Feed, read_committed
from tests.support.txns.transactional_worker import start_worker

PARTITIONS = 8
WORKERS = 4
CHANGES = 12
SESSION_MS = 2000
DRAINED_WITHIN_S = 180
VALUES = [f"value-{number}" for number in range(1000)]
# Both clients have this assignor for the classic protocol.
ASSIGNORS = {
    "librdkafka": {"partition.assignment.strategy": "range"},
    "java": {"partition.assignment.strategy": "org.apache.kafka.clients.consumer.RangeAssignor"},
}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_every_record_is_copied_once(
    bootstrap: str, admin: AdminClient, new_topic: TopicMaker, group: str, protocol: Protocol
) -> None:
    require_tool("java")
    source, target = new_topic(PARTITIONS), new_topic(PARTITIONS)
    session = short_session(admin, group, protocol, SESSION_MS) | {"group.protocol": protocol}

    def start(slot: int) -> subprocess.Popen[bytes]:
        client = ("librdkafka", "java")[slot % 2]
        settings = session | (ASSIGNORS[client] if protocol == "classic" else {})
        if protocol == "classic":
            settings["heartbeat.interval.ms"] = 200
        arguments = (bootstrap, source, target, group, f"{group}-{slot}")
        if client == "librdkafka":
            return start_worker(*arguments, settings)
        pairs = [f"{key}={value}" for key, value in settings.items()]
        return subprocess.Popen(
            support_java_command("TransactionalWorker", *arguments, *pairs, log_level="ERROR")
        )

    chance = random.Random(447)
    with Workers(WORKERS, start) as workers, Feed(bootstrap, source, VALUES, chance) as feed:
        workers.fill_up()
        changes = 0
        while changes < CHANGES:
            time.sleep(chance.uniform(0.2, 2))
            slot = chance.choice(workers.slots)
            if not workers.is_running(slot):
                workers.start(slot)
            elif chance.random() < 0.75:
                workers.kill(slot)
            else:
                workers.leave(slot)
            changes += 1
        sent = [value.encode() for value in feed.stop()]
        workers.fill_up()
        deadline = time.monotonic() + DRAINED_WITHIN_S
        while len(copied := read_committed(bootstrap, target, PARTITIONS)) < len(sent):
            workers.check_alive()
            assert time.monotonic() < deadline, f"{len(copied)} of {len(sent)} are copied"
            time.sleep(0.3)
        for slot in workers.slots:
            workers.leave(slot)
    assert workers.kills > 0
    assert Counter(read_committed(bootstrap, target, PARTITIONS)) == Counter(sent)
