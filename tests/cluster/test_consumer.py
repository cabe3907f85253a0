"""ruslo.Consumer with a real broker."""

from __future__ import annotations

import itertools
import re
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import ruslo
from ruslo import TopicPartition
from ruslo.cli.running import with_admin
from ruslo.client.admin.admin import Admin
from ruslo.client.admin.group_descriptions import GroupDescription
from ruslo.client.admin.topics import NewTopic
from ruslo.client.settings.setting import ClientConfigValue
from ruslo.client.wire.raw import RawClient
from ruslo.records.builder import build_batch
from ruslo.records.record import Record
from ruslo.testing import EmbeddedBroker
from tests.support.network.tls import tls_listener

_numbers = itertools.count()
Config = dict[str, ClientConfigValue]


in_every_protocol = pytest.mark.parametrize(
    "protocol",
    [
        {"partition.assignment.strategy": "range"},
        {"partition.assignment.strategy": "cooperative-sticky"},
        {"group.protocol": "consumer"},
    ],
    ids=["eager", "cooperative", "consumer"],
)


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    properties = {
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1000",
        "group.consumer.min.heartbeat.interval.ms": "200",
        "group.consumer.heartbeat.interval.ms": "200",
    }
    with EmbeddedBroker(properties) as broker:
        yield broker


@pytest.fixture
def topic(broker: EmbeddedBroker) -> str:
    """A new topic of two partitions with the values 0 to 9 in each."""
    name = f"topic-{next(_numbers)}"
    with_admin(broker.bootstrap, lambda admin: admin.topics.create([NewTopic(name, partitions=2)]))
    with ruslo.Producer({"bootstrap.servers": broker.bootstrap}) as producer:
        for number in range(10):
            for partition in range(2):
                producer.send(name, b"%d" % number, partition=partition)
    return name


@pytest.fixture
def config(broker: EmbeddedBroker, topic: str) -> Config:
    return {
        "bootstrap.servers": broker.bootstrap,
        "group.id": topic,
        "auto.offset.reset": "earliest",
        "log_level": 0,
    }


def committed(config: Config, topic: str) -> list[int | None]:
    with ruslo.Consumer(config) as consumer:
        return list(consumer.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)]).values())


def wait_until(true: Callable[[], bool], *consumers: ruslo.Consumer) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        for consumer in consumers:
            consumer.poll(0.05)


def test_iteration_gives_one_record_after_another(config: Config, topic: str) -> None:
    with ruslo.Consumer(config) as consumer:
        consumer.subscribe([topic])
        records = list(itertools.islice(consumer, 20))
    for partition in range(2):
        mine = [record for record in records if record.partition == partition]
        assert [(record.offset, record.value) for record in mine] == [(n, b"%d" % n) for n in range(10)]


def test_batches_have_at_most_max_poll_records(config: Config, topic: str) -> None:
    with ruslo.Consumer({**config, "max.poll.records": 6}) as consumer:
        consumer.subscribe([topic])
        sizes = []
        for batch in consumer.batches():
            sizes.append(len(batch))
            if sum(sizes) == 20:
                break
    assert all(1 <= size <= 6 for size in sizes)


def test_a_poll_without_timeout_returns_what_has_arrived(config: Config, topic: str) -> None:
    with ruslo.Consumer(config) as consumer:
        consumer.subscribe([topic])
        seen: list[int] = []
        deadline = time.monotonic() + 60
        while len(seen) < 20 and time.monotonic() < deadline:
            seen += [record.offset for record in consumer.poll(0)]
            time.sleep(0.01)
        assert sorted(seen) == sorted([*range(10), *range(10)])


def test_closing_commits_processed_records_only(config: Config, topic: str) -> None:
    with ruslo.Consumer(config) as consumer:
        consumer.subscribe([topic])
        records = list(itertools.islice(consumer, 7))
    delivered = [sum(record.partition == partition for record in records) for partition in range(2)]
    assert [offset or 0 for offset in committed(config, topic)] == delivered


def test_a_record_whose_processing_failed_is_delivered_again(config: Config, topic: str) -> None:
    taken: list[ruslo.ConsumedRecord] = []

    def process() -> None:
        with ruslo.Consumer(config) as consumer:
            consumer.subscribe([topic])
            for record in consumer:
                taken.append(record)
                if len(taken) == 5:
                    raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        process()
    with ruslo.Consumer(config) as consumer:
        consumer.subscribe([topic])
        seen = list(itertools.islice(consumer, 16))
    assert [record for record in taken if record in seen] == taken[4:]


def test_commit_covers_all_delivered_records(config: Config, topic: str) -> None:
    with ruslo.Consumer({**config, "enable.auto.commit": False}) as consumer:
        consumer.commit()
        consumer.subscribe([topic])
        for record in itertools.islice(consumer, 5):
            last = record
        consumer.commit()
        delivered = consumer.positions()
        assert delivered[TopicPartition(topic, last.partition)] == last.offset + 1
        next(consumer)
    stored = committed(config, topic)
    assert [stored[partition] or 0 for partition in range(2)] == [
        delivered.get(TopicPartition(topic, partition), 0) for partition in range(2)
    ]


def test_commit_of_chosen_offsets(config: Config, topic: str) -> None:
    first = TopicPartition(topic, 0)
    with ruslo.Consumer({**config, "enable.auto.commit": False}) as consumer:
        consumer.subscribe([topic])
        next(consumer)
        consumer.commit({first: 3})
        assert consumer.committed([first]) == {first: 3}
        consumer.commit_async({first: 4})
        wait_until(lambda: consumer.committed([first]) == {first: 4}, consumer)


def test_deserializers_are_callables(config: Config, topic: str) -> None:
    with ruslo.Consumer(config, value_deserializer=lambda data: int(data or b"-1")) as consumer:
        consumer.subscribe([topic])
        assert sum(record.value for record in itertools.islice(consumer, 20)) == 90


def test_a_record_that_cannot_be_decoded_is_raised_until_a_seek(config: Config, topic: str) -> None:
    def no_seven(data: bytes | None) -> bytes | None:
        if data == b"7":
            raise ValueError("unlucky")
        return data

    tp = TopicPartition(topic, 0)
    with ruslo.Consumer(config, value_deserializer=no_seven) as consumer:
        consumer.assign({tp: ruslo.START})
        seen: list[bytes | None] = []

        def read_forever() -> None:
            while True:
                seen.extend(record.value for record in consumer.poll(1))

        with pytest.raises(ruslo.UndecodableRecord, match="offset 7 cannot be decoded: unlucky; seek to 8"):
            read_forever()
        assert seen == [b"%d" % n for n in range(7)]
        with pytest.raises(ruslo.UndecodableRecord) as caught:
            consumer.poll(1)
        consumer.seek(caught.value.partition, caught.value.offset + 1)
        assert [record.value for record in itertools.islice(consumer, 2)] == [b"8", b"9"]


def test_a_header_key_that_is_not_utf8_hides_no_record_before_it(
    broker: EmbeddedBroker, config: Config, topic: str
) -> None:
    tp = TopicPartition(topic, 0)
    now_ms = time.time_ns() // 1_000_000
    batch = build_batch(
        [
            Record(0, now_ms, None, b"before"),
            Record(1, now_ms, None, b"odd", (("caf\udce9", b""),)),
            Record(2, now_ms, None, b"after"),
        ]
    )
    with_admin(broker.bootstrap, lambda admin: RawClient(admin.cluster).produce({tp: batch}))
    with ruslo.Consumer(config) as consumer:
        consumer.assign({tp: 10})
        assert [record.value for record in consumer.poll(30)] == [b"before"]
        for _ in range(2):
            with pytest.raises(ruslo.UndecodableRecord, match=r"header names .* at offset 11 .* seek to 12"):
                consumer.poll(30)
        consumer.seek(tp, 12)
        assert next(consumer).value == b"after"


def test_records_of_an_interrupted_poll_are_delivered_again(config: Config, topic: str) -> None:
    tp = TopicPartition(topic, 0)
    with ruslo.Consumer({**config, "max.poll.records": 3}) as consumer:
        consumer.keeps_last_delivery = True
        consumer.assign({tp: ruslo.START})
        assert [record.offset for record in consumer.poll(30)] in ([0], [0, 1], [0, 1, 2])
        position = consumer.position(tp)
        assert position is not None
        assert consumer.poll(30)
        consumer.undeliver()
        assert consumer.position(tp) == position
        consumer.undeliver()
        assert [record.offset for record in itertools.islice(consumer, 2)] == [position, position + 1]


def test_no_committed_offset_and_no_reset_policy_is_an_error(config: Config, topic: str) -> None:
    with ruslo.Consumer({**config, "auto.offset.reset": "none"}) as consumer:
        consumer.subscribe([topic])
        with pytest.raises(ruslo.KafkaError) as caught:
            next(consumer)
        assert caught.value.code == ruslo.ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_paused_partition_loses_nothing(config: Config, topic: str) -> None:
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with ruslo.Consumer({**config, "max.poll.records": 50}) as consumer:
        consumer.assign({first: ruslo.START, second: ruslo.START})
        head = next(consumer)
        paused = TopicPartition(topic, head.partition)
        consumer.pause([paused])
        others = list(itertools.islice(consumer, 10))
        assert {record.partition for record in others} == {1 - head.partition}
        assert consumer.poll(0.3) == []
        consumer.resume([paused])
        rest = list(itertools.islice(consumer, 9))
    assert [record.offset for record in rest] == list(range(1, 10))


def test_subscribing_by_pattern(config: Config, topic: str) -> None:
    with ruslo.Consumer({**config, "metadata.max.age.ms": 500}) as consumer:
        consumer.subscribe(re.compile(re.escape(topic[:-1]) + "[" + topic[-1] + "]"))
        assert next(consumer).topic == topic


@in_every_protocol
def test_the_consumer_waits_for_offsets_of_an_open_transaction(
    config: Config, topic: str, protocol: dict[str, ClientConfigValue]
) -> None:
    """Even if a second member joins meanwhile and the first one starts again."""
    settings = {**config, **protocol, "isolation.level": "read_committed", "enable.auto.commit": False}
    if "group.protocol" not in protocol:
        settings["heartbeat.interval.ms"] = 200
    seen: set[tuple[int, int]] = set()
    producer = ruslo.Producer({"bootstrap.servers": config["bootstrap.servers"], "transactional.id": topic})
    with producer, ruslo.Consumer(settings) as first, ruslo.Consumer(settings) as second:

        def read(consumer: ruslo.Consumer) -> None:
            consumer.subscribe([topic])
            while not done.is_set():
                seen.update((record.partition, record.offset) for record in consumer.poll(0.1))

        done = threading.Event()
        readers = [threading.Thread(target=read, args=[each]) for each in (first, second)]
        with producer.transaction() as transaction:
            transaction.send_offsets(first, {TopicPartition(topic, index): 7 for index in range(2)})
            for reader in readers:
                reader.start()
                time.sleep(1)
        wait_until(lambda: len(seen) >= 6)
        done.set()
        for reader in readers:
            reader.join()
    assert seen == {(partition, offset) for partition in range(2) for offset in (7, 8, 9)}


@in_every_protocol
def test_closing_does_not_wait_for_the_offsets_of_an_assignment(
    config: Config, topic: str, protocol: dict[str, ClientConfigValue]
) -> None:
    """The assignment has arrived, and no poll has handed it out."""
    settings = {**config, **protocol, "isolation.level": "read_committed", "default.api.timeout.ms": 1000}
    assigned: list[TopicPartition] = []

    def on_assign(partitions: list[TopicPartition]) -> None:
        assigned.extend(partitions)
        # librdkafka may never return from a callback that it runs inside its close.
        callers = {(frame.name, frame.line) for frame in traceback.extract_stack()}
        assert ("_leave", "self._handle.close()") not in callers

    with ruslo.Consumer(settings) as consumer:
        consumer.subscribe([topic], on_assign=on_assign)
        bootstrap = str(config["bootstrap.servers"])
        wait_until(lambda: with_admin(bootstrap, lambda admin: _is_assigned(admin, topic)))
        assert assigned == []
    # The coordinator may have sent the assignment, and the consumer not have received it.
    assert set(assigned) <= {TopicPartition(topic, 0), TopicPartition(topic, 1)}


async def _is_assigned(admin: Admin, group_id: str) -> bool:
    found = (await admin.groups.describe([group_id]))[group_id]
    return isinstance(found, GroupDescription) and any(member.assignment for member in found.members)


@in_every_protocol
def test_a_static_member_stays_in_the_group_when_it_closes(
    config: Config, topic: str, protocol: dict[str, ClientConfigValue]
) -> None:
    bootstrap = str(config["bootstrap.servers"])
    for _ in range(2):
        with ruslo.Consumer({**config, **protocol, "group.instance.id": "one"}) as consumer:
            consumer.subscribe([topic])
            assert next(consumer).topic == topic
        assert with_admin(bootstrap, lambda admin: _is_assigned(admin, topic))


@in_every_protocol
def test_rebalances_call_the_listeners_and_lose_nothing(
    config: Config, topic: str, protocol: dict[str, ClientConfigValue]
) -> None:
    rebalances: list[tuple[str, list[TopicPartition]]] = []
    both = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    settings = {**config, **protocol, "auto.commit.interval.ms": 60_000}
    with ruslo.Consumer(settings) as one:
        one.subscribe(
            [topic],
            on_assign=lambda partitions: rebalances.append(("assigned", sorted(partitions))),
            on_revoke=lambda partitions: rebalances.append(("revoked", sorted(partitions))),
        )
        first = list(itertools.islice(one, 20))
        assert len({(record.partition, record.offset) for record in first}) == 20
        assert rebalances[0] == ("assigned", both)
        with ruslo.Consumer(settings) as two:
            two.subscribe([topic])
            wait_until(lambda: len(one.assignment()) == 1 and len(two.assignment()) == 1, one, two)
            lost = [partitions for what, partitions in rebalances if what == "revoked"]
            assert lost
            # All 20 records are processed: offsets of moved partitions were committed, so none is read again.
            assert two.poll(0.5) == []
            assert one.poll(0.2) == []
    assert committed(config, topic) == [10, 10]


def test_on_assign_may_seek(config: Config, topic: str) -> None:
    with ruslo.Consumer(config) as consumer:

        def begin(partitions: list[TopicPartition]) -> None:
            for partition in partitions:
                consumer.seek(partition, 8)

        consumer.subscribe([topic], on_assign=begin)
        assert sorted(record.offset for record in itertools.islice(consumer, 4)) == [8, 8, 9, 9]


def test_on_revoke_may_commit(config: Config, topic: str) -> None:
    with ruslo.Consumer({**config, "enable.auto.commit": False}) as consumer:
        consumer.subscribe([topic], on_revoke=lambda _: consumer.commit())
        list(itertools.islice(consumer, 20))
    assert committed(config, topic) == [10, 10]


def test_an_exception_of_a_callback_leaves_poll(config: Config, topic: str) -> None:
    def fail(partitions: list[TopicPartition]) -> None:
        raise ZeroDivisionError

    with ruslo.Consumer(config) as consumer:
        consumer.subscribe([topic], on_assign=fail)
        with pytest.raises(ZeroDivisionError):
            next(consumer)


def test_a_topic_that_is_created_later(config: Config, topic: str, broker: EmbeddedBroker) -> None:
    late = f"{topic}-late"
    with ruslo.Consumer(
        {**config, "allow.auto.create.topics": False, "metadata.max.age.ms": 300}
    ) as consumer:
        consumer.subscribe([late])
        assert consumer.poll(0.5) == []
        with ruslo.Producer({"bootstrap.servers": broker.bootstrap}) as producer:
            producer.send(late, b"here")
        assert next(consumer).value == b"here"


@pytest.mark.parametrize("how", ["for record in consumer: pass", "while True: consumer.poll(30)"])
def test_ctrl_c_ends_a_loop_and_leaves_the_group(config: Config, topic: str, how: str) -> None:
    script = f"""
import ruslo
with ruslo.Consumer({config!r}) as consumer:
    consumer.subscribe([{topic!r}], on_assign=lambda _: print("ready", flush=True))
    {how}
"""
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in errors
    bootstrap = str(config["bootstrap.servers"])
    (described,) = with_admin(bootstrap, lambda admin: admin.groups.describe([topic])).values()
    assert not isinstance(described, Exception)
    assert len(described.members) == 0


@pytest.mark.parametrize(
    ("protocol", "message"),
    [("SSL", "certificate verify failed"), ("PLAINTEXT", "is a listener with TLS")],
)
def test_tls_errors_are_raised_at_once(tmp_path: Path, protocol: str, message: str) -> None:
    with tls_listener(tmp_path) as port:
        config: Config = {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "security.protocol": protocol,
            "group.id": "g",
            "log_level": 0,
        }
        with ruslo.Consumer(config) as consumer, pytest.raises(ruslo.KafkaError, match=message):
            consumer.partitions_for("t")
        with ruslo.Consumer(config) as consumer:
            consumer.subscribe(["t"])
            with pytest.raises(ruslo.KafkaError, match=message):
                consumer.poll(60)
        with ruslo.Consumer(config) as consumer:
            consumer.subscribe(["t"])
            with pytest.raises(ruslo.KafkaError, match=message):
                next(consumer)
