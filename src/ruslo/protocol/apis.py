"""The APIs of Kafka 4.3, with the versions that Kafka 4.4 added: keys, names, versions and listeners."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ruslo.protocol._api_table import API_ROWS
from ruslo.protocol.message import Message
from ruslo.protocol.modules import message_class


@dataclass(frozen=True)
class Api:
    key: int
    name: str
    min_version: int
    max_version: int
    """Latest stable version; -1 for APIs that were removed."""
    flexible_from: int
    listeners: tuple[str, ...]
    """Listeners that serve it: "broker", "controller", both, or none."""
    forwardable: bool
    """Whether a broker forwards it to the controller."""
    cluster_action: bool
    """Whether it is for brokers and controllers only, with the ClusterAction permission."""

    @cached_property
    def request(self) -> type[Message]:
        return message_class(f"{self.name}Request")

    @cached_property
    def response(self) -> type[Message]:
        return message_class(f"{self.name}Response")


KAFKA_4_4_VERSIONS: dict[str, int] = {
    "ApiVersions": 5,
    "DeleteGroups": 3,
    "StreamsGroupDescribe": 1,
    "StreamsGroupHeartbeat": 1,
    "StreamsGroupTopologyDescriptionUpdate": 0,
    "TxnOffsetCommit": 6,
    "UnregisterController": 0,
}
"""The version that Kafka 4.4 added, by API; version 0 is a new API."""

API_BY_KEY: dict[int, Api] = {row[0]: Api(*row) for row in API_ROWS}
API_BY_NAME: dict[str, Api] = {api.name: api for api in API_BY_KEY.values()}
