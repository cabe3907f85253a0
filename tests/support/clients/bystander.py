"""A normal client that must not be affected, and a plain socket for misbehaving clients."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from typing import Self

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ruslo.protocol.messages.list_offsets_response import ListOffsetsResponse
from ruslo.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ruslo.protocol.messages.produce_response import ProduceResponse
from tests.support.clients.raw_client import frame, request_bytes


class Witness:
    """Produces and consumes with librdkafka over long-lived connections."""

    TOPIC = "witness"

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self.create(self.TOPIC)
        self._errors: list[str] = []
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 0})
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "unused",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 100,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(self.TOPIC, 0, OFFSET_BEGINNING)])
        self._sent = 0

    def create(self, topic: str, partitions: int = 1, **settings: str) -> None:
        config = {key.replace("_", "."): value for key, value in settings.items()}
        self.admin.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic].result(timeout=30)

    def check(self) -> None:
        """Check that a produced record is consumed once and in order."""
        value = b"record %d" % self._sent
        self._producer.produce(self.TOPIC, value, on_delivery=self._on_delivery)
        assert self._producer.flush(20) == 0, "the record was not acked"
        assert self._errors == []
        deadline = time.monotonic() + 60
        message = None
        while message is None:
            assert time.monotonic() < deadline, "the record was not consumed"
            message = self._consumer.poll(1.0)
        assert message.error() is None, message.error()
        assert (message.offset(), message.value()) == (self._sent, value)
        self._sent += 1

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._errors.append(str(error))

    def close(self) -> None:
        self._consumer.close()


class PlainSocket:
    def __init__(self, bootstrap: str, source: str = "") -> None:
        """``source`` is the local address; on Linux all of 127.0.0.0/8 is this machine."""
        host, _, port = bootstrap.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=60, source_address=(source, 0))

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def read_frame(self) -> bytes:
        (size,) = struct.unpack(">i", self.read_exactly(4))
        return self.read_exactly(size)

    def read_exactly(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            piece = self.socket.recv(min(size - len(received), 1 << 20))
            if not piece:
                raise ConnectionError("the broker closed the connection")
            received += piece
        return bytes(received)

    def read_to_the_end(self) -> bytes:
        received = bytearray()
        with contextlib.suppress(ConnectionError):
            while piece := self.socket.recv(1 << 16):
                received += piece
        return bytes(received)

    def produce(self, topic: str, index: int, batch: bytes | bytearray) -> tuple[ErrorCode, str | None]:
        """Produce one batch with version 9; returns the error code and message."""
        data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=index, records=batch)])
        request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data])
        self.send(frame(request_bytes(request, 9)))
        response = ProduceResponse.from_bytes(self.read_frame()[5:], 9)
        (result,) = response.responses[0].partition_responses
        return ErrorCode(result.error_code), result.error_message

    def end_offset(self, topic: str, index: int = 0) -> int:
        partition = ListOffsetsPartition(partition_index=index, timestamp=-1)
        listed = ListOffsetsTopic(name=topic, partitions=[partition])
        request = ListOffsetsRequest(replica_id=-1, topics=[listed])
        self.send(frame(request_bytes(request, 5)))
        response = ListOffsetsResponse.from_bytes(self.read_frame()[4:], 5)
        (result,) = response.topics[0].partitions
        assert result.error_code == 0, ErrorCode(result.error_code)
        return result.offset

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def resident_bytes(pid: int) -> int:
    """The current resident memory of a process."""
    with open(f"/proc/{pid}/statm") as file:
        pages = int(file.read().split()[1])
    return pages * 4096
