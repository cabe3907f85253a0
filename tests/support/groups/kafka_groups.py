"""Apache Kafka's group coordinator with the interface of GroupBench: each request has its own connection."""

from __future__ import annotations

import select
import socket
import struct
import time
from itertools import count
from typing import TypeVar

from ruslo.model.errors import ErrorCode
from ruslo.model.ids import Uuid
from ruslo.protocol.apis import API_BY_KEY
from ruslo.protocol.message import Message
from ruslo.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from ruslo.protocol.messages.create_topics_response import CreateTopicsResponse
from ruslo.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ruslo.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from ruslo.protocol.messages.heartbeat_request import HeartbeatRequest
from ruslo.protocol.messages.heartbeat_response import HeartbeatResponse
from tests.support.brokers.node import Node
from tests.support.clients.raw_client import frame, request_bytes

MessageT = TypeVar("MessageT", bound=Message)

PARKED_AFTER_S = 0.4
"""A request without a response after this time is considered parked."""
TIMEOUT_S = 30.0


class KafkaGroups:
    def __init__(self, node: Node, topics: dict[str, int]) -> None:
        self._node = node
        self._tokens = count(1)
        self._calls: dict[int, tuple[socket.socket, int, int]] = {}
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(name=name, num_partitions=size, replication_factor=1)
                for name, size in topics.items()
            ],
            timeout_ms=30_000,
        )
        created = self.call(request, CreateTopicsResponse).topics
        self._topic_ids = {topic.name: topic.topic_id for topic in created}
        self._wait_for_coordinator()

    def send(self, request: Message, version: int | None = None, client: str = "app") -> int:
        if version is None:
            version = API_BY_KEY[request.API_KEY].max_version
        connection = socket.create_connection(("127.0.0.1", self._node.port))
        connection.settimeout(TIMEOUT_S)
        connection.sendall(frame(request_bytes(request, version, client_id=client)))
        token = next(self._tokens)
        self._calls[token] = connection, request.API_KEY, version
        return token

    def call(
        self, request: Message, response: type[MessageT], version: int | None = None, client: str = "app"
    ) -> MessageT:
        return self.response(self.send(request, version, client), response)

    def response(self, token: int, response: type[MessageT]) -> MessageT:
        connection, api_key, version = self._calls.pop(token)
        api = API_BY_KEY[api_key]
        with connection:
            (size,) = struct.unpack(">i", _read(connection, 4))
            body = _read(connection, size)
        start = 5 if version >= api.flexible_from else 4
        return response.from_bytes(body[start:], version)

    def is_parked(self, token: int) -> bool:
        readable, _, _ = select.select([self._calls[token][0]], [], [], PARKED_AFTER_S)
        return not readable

    def topic_id(self, name: str) -> Uuid:
        return self._topic_ids[name]

    def _wait_for_coordinator(self) -> None:
        find = FindCoordinatorRequest(coordinator_keys=["g"])
        beat = HeartbeatRequest(group_id="g", member_id="m")
        deadline_s = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline_s:
            found = self.call(find, FindCoordinatorResponse).coordinators[0].error_code
            # While it loads the group's partition, the coordinator accepts any heartbeat.
            loaded = self.call(beat, HeartbeatResponse).error_code == ErrorCode.UNKNOWN_MEMBER_ID
            if found == ErrorCode.NONE and loaded:
                return
            time.sleep(0.1)
        raise TimeoutError(f"no group coordinator within {TIMEOUT_S} s; see {self._node.log_file}")


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        assert more, "the broker closed the connection"
        data += more
    return data
