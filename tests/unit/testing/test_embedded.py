"""Brokers in child processes, each with its own data directory."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ruslo.client.librdkafka.consumer import START, ConsumedRecord, Consumer
from ruslo.client.librdkafka.producer import Producer
from ruslo.model.topics import TopicPartition
from ruslo.testing import BrokerFailed, EmbeddedBroker


def write(broker: EmbeddedBroker, *values: bytes) -> None:
    with Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0}) as producer:
        for value in values:
            producer.send("t", value)


def read(broker: EmbeddedBroker, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    with Consumer({"bootstrap.servers": broker.bootstrap, "log_level": 0}) as consumer:
        consumer.assign({TopicPartition("t", 0): START})
        deadline = time.monotonic() + 60
        while len(values) < count and time.monotonic() < deadline:
            values += [event.value for event in consumer.poll(1) if isinstance(event, ConsumedRecord)]
    return values


def test_data_and_address_survive_restart_and_kill() -> None:
    with EmbeddedBroker() as broker:
        address, folder = broker.bootstrap, broker.data_dir
        write(broker, b"one")
        broker.restart()
        assert broker.bootstrap == address
        write(broker, b"two")
        broker.kill()
        assert not broker.running
        broker.start()
        assert broker.bootstrap == address
        assert read(broker, 2) == [b"one", b"two"]
        assert folder.exists()
    assert not broker.running
    assert not folder.exists()


def test_properties_and_a_given_folder(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with EmbeddedBroker({"num.partitions": "4"}, data_dir=data) as broker:
        write(broker, b"x")
        with Consumer({"bootstrap.servers": broker.bootstrap}) as consumer:
            assert consumer.partitions_for("t") == [0, 1, 2, 3]
    assert (data / "meta.properties").exists()


def test_two_brokers_are_independent() -> None:
    with EmbeddedBroker() as one, EmbeddedBroker() as two:
        assert one.bootstrap != two.bootstrap
        write(one, b"one")
        write(two, b"two")
        assert (read(one, 1), read(two, 1)) == ([b"one"], [b"two"])


def test_a_failed_start_is_reported_with_its_reason() -> None:
    broker = EmbeddedBroker({"num.partitions": "none"})
    with pytest.raises(BrokerFailed, match=r"failed to start: Invalid configuration num\.partitions=none"):
        broker.start()
    assert not broker.running
    broker.close()


def test_stopping_a_crashed_broker_raises() -> None:
    broker = EmbeddedBroker().start()
    os.kill(broker.pid, 9)
    while broker.running:
        time.sleep(0.01)
    with pytest.raises(BrokerFailed, match="had already exited with exit code -9"):
        broker.stop()
    broker.close()


def test_a_broker_has_no_address_before_its_start() -> None:
    broker = EmbeddedBroker()
    with pytest.raises(BrokerFailed, match="no address before it is started"):
        _ = broker.bootstrap
    broker.close()


def test_starting_twice_raises() -> None:
    with EmbeddedBroker() as broker, pytest.raises(BrokerFailed, match="already running"):
        broker.start()


def test_killed_test_run_leaves_no_broker() -> None:
    program = (
        "import os\n"
        "from ruslo.testing import EmbeddedBroker\n"
        "broker = EmbeddedBroker().start()\n"
        "print(broker.pid, broker.data_dir.parent, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    pid, folder = result.stdout.split()
    deadline = time.monotonic() + 60
    while os.path.exists(f"/proc/{pid}") and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not os.path.exists(f"/proc/{pid}")
    subprocess.run(["rm", "-r", folder], check=True)


def test_process_with_many_open_files_can_start_a_broker() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2048:
        pytest.skip("this process may not open enough files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    descriptors = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        with EmbeddedBroker() as broker:
            assert broker.running
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
