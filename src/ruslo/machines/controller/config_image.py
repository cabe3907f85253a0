"""Dynamic configs by resource."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from ruslo.machines.controller.records import VersionedRecord
from ruslo.protocol.messages.config_record import ConfigRecord

if TYPE_CHECKING:
    from ruslo.machines.controller.delta import MetadataDelta

TOPIC: Final = 2
BROKER: Final = 4
BROKER_LOGGER: Final = 8
CLIENT_METRICS: Final = 16
GROUP: Final = 32

CLUSTER_DEFAULT: Final = ""
"""The name of the BROKER resource whose configs apply to all brokers."""

_NOTHING: Mapping[str, str] = MappingProxyType({})


class ConfigsImage:
    __slots__ = ("by_resource", "client_metrics", "version")

    def __init__(self) -> None:
        self.by_resource: dict[tuple[int, str], dict[str, str]] = {}
        self.client_metrics: set[str] = set()
        """The names of the client metrics subscriptions (KIP-714)."""
        self.version = 0
        """Incremented with every change of any resource's configs."""

    def copy(self) -> ConfigsImage:
        copy = ConfigsImage()
        copy.by_resource = {resource: configs.copy() for resource, configs in self.by_resource.items()}
        copy.client_metrics = self.client_metrics.copy()
        copy.version = self.version
        return copy

    def of(self, resource_type: int, resource_name: str) -> Mapping[str, str]:
        return self.by_resource.get((resource_type, resource_name), _NOTHING)

    def of_topic(self, name: str) -> Mapping[str, str]:
        return self.by_resource.get((TOPIC, name), _NOTHING)

    def replay_config(self, record: ConfigRecord, delta: MetadataDelta | None) -> None:
        resource = (record.resource_type, record.resource_name)
        if record.value is not None:
            self.by_resource.setdefault(resource, {})[record.name] = record.value
            if record.resource_type == CLIENT_METRICS:
                self.client_metrics.add(record.resource_name)
        elif (configs := self.by_resource.get(resource)) is not None:
            configs.pop(record.name, None)
            if not configs:
                del self.by_resource[resource]
                if record.resource_type == CLIENT_METRICS:
                    self.client_metrics.discard(record.resource_name)
        self._changed(resource, delta)

    def forget_topic(self, name: str, delta: MetadataDelta | None) -> None:
        """A removed topic's configs are removed without a record."""
        if self.by_resource.pop((TOPIC, name), None) is not None:
            self._changed((TOPIC, name), delta)

    def to_records(self) -> Iterator[VersionedRecord]:
        for (resource_type, resource_name), configs in self.by_resource.items():
            for name, value in sorted(configs.items()):
                yield (
                    ConfigRecord(
                        resource_type=resource_type, resource_name=resource_name, name=name, value=value
                    ),
                    0,
                )

    def _changed(self, resource: tuple[int, str], delta: MetadataDelta | None) -> None:
        self.version += 1
        if delta is not None:
            delta.changed_configs.add(resource)
