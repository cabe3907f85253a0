"""The APIs of Kafka 4.3: keys, names, versions, and who serves them."""

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
    """Newest stable version; -1 for APIs that were removed."""
    flexible_from: int
    listeners: tuple[str, ...]
    """Who serves it: "broker", "controller", both, or nobody."""
    forwardable: bool
    """A broker passes it on to the controller."""
    cluster_action: bool
    """It is for brokers and controllers, and needs the ClusterAction right."""

    @cached_property
    def request(self) -> type[Message]:
        return message_class(f"{self.name}Request")

    @cached_property
    def response(self) -> type[Message]:
        return message_class(f"{self.name}Response")


API_BY_KEY: dict[int, Api] = {row[0]: Api(*row) for row in API_ROWS}
API_BY_NAME: dict[str, Api] = {api.name: api for api in API_BY_KEY.values()}
