"""The registered brokers and controllers of the cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ruslo.machines.controller.records import (
    CONTROLLER_REGISTRATION_SUPPORTED,
    CORDONED_LOG_DIRS_SUPPORTED,
    DIRECTORY_ASSIGNMENT_SUPPORTED,
    VersionedRecord,
    register_broker_record_version,
)
from ruslo.model.errors import CorruptLogError
from ruslo.model.ids import LOST_DIR, MIGRATING_DIR, UNASSIGNED_DIR, Uuid
from ruslo.protocol.messages.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord

if TYPE_CHECKING:
    from ruslo.machines.controller.delta import MetadataDelta
    from ruslo.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
    from ruslo.protocol.messages.fence_broker_record import FenceBrokerRecord
    from ruslo.protocol.messages.register_controller_record import RegisterControllerRecord
    from ruslo.protocol.messages.unfence_broker_record import UnfenceBrokerRecord
    from ruslo.protocol.messages.unregister_broker_record import UnregisterBrokerRecord

FENCE = 1
UNFENCE = -1
ENTER_CONTROLLED_SHUTDOWN = 1

StructT = TypeVar("StructT")


class Endpoint(NamedTuple):
    name: str
    host: str
    port: int
    security_protocol: int


class FeatureRange(NamedTuple):
    min_version: int
    max_version: int

    def __contains__(self, level: object) -> bool:
        return isinstance(level, int) and self.min_version <= level <= self.max_version


def endpoint_structs(new: Callable[..., StructT], endpoints: Iterable[Any]) -> list[StructT]:
    """The endpoints, which are of any type with these fields, in the type of another message."""
    return [
        new(name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol)
        for each in endpoints
    ]


def feature_structs(new: Callable[..., StructT], features: Mapping[str, FeatureRange]) -> list[StructT]:
    return [
        new(name=name, min_supported_version=span.min_version, max_supported_version=span.max_version)
        for name, span in features.items()
    ]


def feature_ranges(structs: Iterable[Any]) -> dict[str, FeatureRange]:
    return {
        each.name: FeatureRange(each.min_supported_version, each.max_supported_version) for each in structs
    }


class BrokerImage(NamedTuple):
    id: int
    epoch: int
    incarnation_id: Uuid
    endpoints: tuple[Endpoint, ...]
    features: dict[str, FeatureRange]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    log_dirs: tuple[Uuid, ...]
    cordoned_log_dirs: tuple[Uuid, ...] | None
    """None: the broker has not reported them yet (KIP-1066)."""

    @property
    def active(self) -> bool:
        """Neither fenced nor in controlled shutdown: it may lead and be in sync."""
        return not self.fenced and not self.in_controlled_shutdown

    def endpoint(self, listener_name: str) -> Endpoint | None:
        for endpoint in self.endpoints:
            if endpoint.name == listener_name:
                return endpoint
        return None

    def has_online_dir(self, directory: Uuid) -> bool:
        if directory in (UNASSIGNED_DIR, MIGRATING_DIR):
            return True
        return directory != LOST_DIR and (not self.log_dirs or directory in self.log_dirs)

    @property
    def accepts_new_replicas(self) -> bool:
        if not self.log_dirs or not self.cordoned_log_dirs:
            return True
        return not set(self.log_dirs) <= set(self.cordoned_log_dirs)

    def default_dir(self) -> Uuid:
        """The directory of a new replica if the broker has only one; otherwise the broker chooses."""
        return self.log_dirs[0] if len(self.log_dirs) == 1 else UNASSIGNED_DIR


class ClusterImage:
    __slots__ = ("brokers", "controllers", "version")

    def __init__(self) -> None:
        self.brokers: dict[int, BrokerImage] = {}
        self.controllers: dict[int, RegisterControllerRecord] = {}
        self.version = 0
        """Incremented with every change of any broker."""

    def copy(self) -> ClusterImage:
        copy = ClusterImage()
        copy.brokers = self.brokers.copy()
        copy.controllers = self.controllers.copy()
        copy.version = self.version
        return copy

    def replay_register_broker(self, record: RegisterBrokerRecord, delta: MetadataDelta | None) -> None:
        self._put(
            BrokerImage(
                id=record.broker_id,
                epoch=record.broker_epoch,
                incarnation_id=record.incarnation_id,
                endpoints=tuple(
                    Endpoint(each.name, each.host, each.port, each.security_protocol)
                    for each in record.end_points
                ),
                features=feature_ranges(record.features),
                rack=record.rack,
                fenced=record.fenced,
                in_controlled_shutdown=record.in_controlled_shutdown,
                log_dirs=tuple(record.log_dirs),
                cordoned_log_dirs=None
                if record.cordoned_log_dirs is None
                else tuple(record.cordoned_log_dirs),
            ),
            delta,
        )

    def replay_unregister_broker(self, record: UnregisterBrokerRecord, delta: MetadataDelta | None) -> None:
        broker = self._existing(record.broker_id, record.broker_epoch, "UnregisterBrokerRecord")
        del self.brokers[broker.id]
        self.version += 1
        if delta is not None:
            delta.broker_changed(broker.id, broker)

    def replay_registration_change(
        self, record: BrokerRegistrationChangeRecord, delta: MetadataDelta | None
    ) -> None:
        broker = self._existing(record.broker_id, record.broker_epoch, "BrokerRegistrationChangeRecord")
        if record.fenced:
            broker = broker._replace(fenced=record.fenced == FENCE)
        if record.in_controlled_shutdown == ENTER_CONTROLLED_SHUTDOWN:
            broker = broker._replace(in_controlled_shutdown=True)
        if record.log_dirs:
            broker = broker._replace(log_dirs=tuple(record.log_dirs))
        if record.cordoned_log_dirs is not None:
            broker = broker._replace(cordoned_log_dirs=tuple(record.cordoned_log_dirs))
        self._put(broker, delta)

    def replay_fence_broker(self, record: FenceBrokerRecord, delta: MetadataDelta | None) -> None:
        self._put(self._existing(record.id, record.epoch, "FenceBrokerRecord")._replace(fenced=True), delta)

    def replay_unfence_broker(self, record: UnfenceBrokerRecord, delta: MetadataDelta | None) -> None:
        self._put(
            self._existing(record.id, record.epoch, "UnfenceBrokerRecord")._replace(fenced=False), delta
        )

    def replay_register_controller(self, record: RegisterControllerRecord) -> None:
        self.controllers[record.controller_id] = record

    def to_records(self, metadata_version: int) -> Iterator[VersionedRecord]:
        version = register_broker_record_version(metadata_version)
        for broker in self.brokers.values():
            record = RegisterBrokerRecord(
                broker_id=broker.id,
                incarnation_id=broker.incarnation_id,
                broker_epoch=broker.epoch,
                end_points=endpoint_structs(BrokerEndpoint, broker.endpoints),
                features=feature_structs(BrokerFeature, broker.features),
                rack=broker.rack,
                fenced=broker.fenced,
                in_controlled_shutdown=broker.in_controlled_shutdown,
            )
            if metadata_version >= DIRECTORY_ASSIGNMENT_SUPPORTED:
                record.log_dirs = list(broker.log_dirs)
            if metadata_version >= CORDONED_LOG_DIRS_SUPPORTED and broker.cordoned_log_dirs is not None:
                record.cordoned_log_dirs = list(broker.cordoned_log_dirs)
            yield record, version
        if metadata_version >= CONTROLLER_REGISTRATION_SUPPORTED:
            for controller in self.controllers.values():
                yield controller, 0

    def _put(self, broker: BrokerImage, delta: MetadataDelta | None) -> None:
        if delta is not None:
            delta.broker_changed(broker.id, self.brokers.get(broker.id))
        self.brokers[broker.id] = broker
        self.version += 1

    def _existing(self, broker_id: int, broker_epoch: int, record_name: str) -> BrokerImage:
        broker = self.brokers.get(broker_id)
        if broker is None or broker.epoch != broker_epoch:
            raise CorruptLogError(
                f"The metadata log has a {record_name} for broker {broker_id} with epoch {broker_epoch}, "
                f"but {'it is not registered' if broker is None else f'its epoch is {broker.epoch}'}"
            )
        return broker
