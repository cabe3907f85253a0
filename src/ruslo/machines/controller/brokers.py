"""The lifecycle of a broker in the controller: registration, heartbeats, fencing, controlled shutdown.

==================== ======================================= =================================================
state                event                                   next state
==================== ======================================= =================================================
unknown              registration                            fenced
fenced               heartbeat: caught up                    unfenced
fenced               heartbeat: wants to shut down           may shut down now
unfenced             session expires, or wants to be fenced  fenced
unfenced             wants to shut down, leads partitions    controlled shutdown
unfenced             wants to shut down, leads none          may shut down now (fenced)
controlled shutdown  leads none, and all active brokers      may shut down now (fenced)
                     have replayed the leader changes
any                  registers again                         fenced, with a new epoch
any                  heartbeat: failed log directories       same, without them and the replicas in them
==================== ======================================= =================================================
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from itertools import chain

from ruslo.machines.controller.broker_image import (
    ENTER_CONTROLLED_SHUTDOWN,
    FENCE,
    UNFENCE,
    BrokerImage,
    FeatureRange,
    endpoint_structs,
    feature_ranges,
    feature_structs,
)
from ruslo.machines.controller.directories import lose_directories, lost_directories
from ruslo.machines.controller.feature_image import KRAFT_VERSION, METADATA_VERSION
from ruslo.machines.controller.partition_changes import (
    changes_for_joining_broker,
    changes_for_leaving_broker,
    changes_for_unclean_shutdown,
)
from ruslo.machines.controller.records import (
    CORDONED_LOG_DIRS_SUPPORTED,
    DIRECTORY_ASSIGNMENT_SUPPORTED,
    VersionedRecord,
    register_broker_record_version,
)
from ruslo.machines.controller.state import ControllerState, Decision
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import uuid_to_text
from ruslo.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from ruslo.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from ruslo.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from ruslo.protocol.messages.broker_registration_request import BrokerRegistrationRequest
from ruslo.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from ruslo.protocol.messages.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from ruslo.protocol.messages.unregister_broker_record import UnregisterBrokerRecord
from ruslo.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from ruslo.protocol.messages.unregister_broker_response import UnregisterBrokerResponse

_RESERVED_DIRECTORIES = 100
"""Directory ids below this number are reserved (KIP-858)."""


class BrokerState(enum.Enum):
    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTDOWN_NOW = "shutdown now"


def register_broker(
    state: ControllerState, request: BrokerRegistrationRequest, next_offset: int, now_ms: int
) -> Decision[BrokerRegistrationResponse]:
    known = state.image.cluster.brokers.get(request.broker_id)
    _check_registration(state, request, known, now_ms)
    is_same_incarnation = known is not None and known.incarnation_id == request.incarnation_id
    changes: Iterable[VersionedRecord] = ()
    if not is_same_incarnation:
        # The shutdown was clean if the broker still has its epoch, from the clean-shutdown file.
        was_clean = known is not None and known.epoch == request.previous_broker_epoch
        if was_clean:
            changes = changes_for_leaving_broker(state, request.broker_id)
        else:
            changes = changes_for_unclean_shutdown(state, request.broker_id)
    record = RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=next_offset,
        end_points=endpoint_structs(BrokerEndpoint, request.listeners),
        features=feature_structs(BrokerFeature, feature_ranges(request.features)),
        rack=request.rack,
        fenced=True,
    )
    if is_same_incarnation and known is not None:
        record.broker_epoch = known.epoch
        record.fenced = known.fenced
        record.in_controlled_shutdown = known.in_controlled_shutdown
    if state.metadata_version >= DIRECTORY_ASSIGNMENT_SUPPORTED:
        record.log_dirs = list(request.log_dirs)
    state.sessions.start(request.broker_id, now_ms)
    registered = (record, register_broker_record_version(state.metadata_version))
    return chain(changes, [registered]), BrokerRegistrationResponse(broker_epoch=record.broker_epoch)


def _check_registration(
    state: ControllerState, request: BrokerRegistrationRequest, known: BrokerImage | None, now_ms: int
) -> None:
    broker_id = request.broker_id
    if request.cluster_id != state.settings.cluster_id:
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Broker {broker_id} belongs to cluster {request.cluster_id}, not to {state.settings.cluster_id}",
        )
    if (
        known is not None
        and known.incarnation_id != request.incarnation_id
        and not known.in_controlled_shutdown
        and state.sessions.is_valid(broker_id, now_ms)
    ):
        raise KafkaError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"Another process is registered as broker {broker_id}. If it has ended, its session expires "
            "within "
            f"{state.settings.broker_session_timeout_ms} ms; retry then",
        )
    if request.is_migrating_zk_broker:
        raise KafkaError(
            ErrorCode.BROKER_ID_NOT_REGISTERED, "Brokers that migrate from ZooKeeper are not supported"
        )
    if state.metadata_version >= DIRECTORY_ASSIGNMENT_SUPPORTED:
        _check_directories(state, request)
    _check_features(state, request)


def _check_directories(state: ControllerState, request: BrokerRegistrationRequest) -> None:
    directories = request.log_dirs
    if not directories:
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, "The registration contains no log directories")
    if any(int.from_bytes(each, "big") < _RESERVED_DIRECTORIES for each in directories):
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, "The registration contains a reserved directory id")
    if len(set(directories)) != len(directories):
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, "The registration contains a directory id twice")
    for broker in state.image.cluster.brokers.values():
        shared = set(broker.log_dirs) & set(directories)
        if broker.id != request.broker_id and shared:
            raise KafkaError(
                ErrorCode.INVALID_REGISTRATION,
                f"Directory {uuid_to_text(min(shared))} belongs to broker {broker.id}",
            )


def _check_features(state: ControllerState, request: BrokerRegistrationRequest) -> None:
    ranges = {
        each.name: FeatureRange(each.min_supported_version, each.max_supported_version)
        for each in request.features
    }
    if METADATA_VERSION not in ranges:
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, "The registration lacks the metadata.version range")
    levels = {METADATA_VERSION: state.metadata_version, **state.image.features.finalized}
    if state.kraft_version:
        levels[KRAFT_VERSION] = state.kraft_version
    for name, level in levels.items():
        if level not in ranges.get(name, FeatureRange(0, 0)):
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Broker {request.broker_id} does not support {name} {level}, which this cluster has "
                "finalized",
            )


def heartbeat(
    state: ControllerState, request: BrokerHeartbeatRequest, now_ms: int
) -> Decision[BrokerHeartbeatResponse]:
    broker = state.registered_broker(request.broker_id, request.broker_epoch)
    caught_up = request.current_metadata_offset >= state.sessions.registration_offsets.get(broker.id, 0)
    state.sessions.touch(broker.id, request.current_metadata_offset, now_ms)
    records: Iterable[VersionedRecord] = ()
    if (
        request.cordoned_log_dirs is not None
        and state.metadata_version >= CORDONED_LOG_DIRS_SUPPORTED
        and broker.cordoned_log_dirs != tuple(request.cordoned_log_dirs)
    ):
        change = BrokerRegistrationChangeRecord(
            broker_id=broker.id, broker_epoch=broker.epoch, cordoned_log_dirs=list(request.cordoned_log_dirs)
        )
        records = [(change, 3)]
    lost = lost_directories(state, broker, request.offline_log_dirs)
    if lost:
        records = chain(records, lose_directories(state, broker, lost))
    next_state = _next_state(state, broker, request, caught_up)
    if next_state is BrokerState.UNFENCED and broker.fenced and lost:
        # Until the loss is replayed, the broker might be elected for a partition that it has just lost.
        next_state = BrokerState.FENCED
    if next_state is BrokerState.UNFENCED and broker.fenced:
        records = chain(records, unfence(state, broker))
    elif next_state is BrokerState.CONTROLLED_SHUTDOWN:
        records = chain(records, _begin_controlled_shutdown(state, broker))
    elif next_state in (BrokerState.FENCED, BrokerState.SHUTDOWN_NOW) and not broker.fenced:
        records = chain(records, fence(state, broker))
    return records, BrokerHeartbeatResponse(
        is_caught_up=caught_up,
        is_fenced=next_state in (BrokerState.FENCED, BrokerState.SHUTDOWN_NOW),
        should_shut_down=next_state is BrokerState.SHUTDOWN_NOW,
    )


def _next_state(
    state: ControllerState, broker: BrokerImage, request: BrokerHeartbeatRequest, caught_up: bool
) -> BrokerState:
    if broker.fenced:
        if request.want_shut_down:
            return BrokerState.SHUTDOWN_NOW
        return BrokerState.UNFENCED if caught_up and not request.want_fence else BrokerState.FENCED
    if request.want_fence:
        return BrokerState.SHUTDOWN_NOW if request.want_shut_down else BrokerState.FENCED
    if not broker.in_controlled_shutdown:
        if not request.want_shut_down:
            return BrokerState.UNFENCED
        return BrokerState.CONTROLLED_SHUTDOWN if _leads(state, broker.id) else BrokerState.SHUTDOWN_NOW
    # The other brokers must know the new leaders first, or clients would be sent to this one again.
    lowest = min(
        (
            state.sessions.metadata_offset(each.id)
            for each in state.image.cluster.brokers.values()
            if each.active
        ),
        default=None,
    )
    shutdown_offset = state.sessions.shutdown_offsets.get(broker.id, -1)
    if _leads(state, broker.id) or (lowest is not None and lowest < shutdown_offset):
        return BrokerState.CONTROLLED_SHUTDOWN
    return BrokerState.SHUTDOWN_NOW


def fence(state: ControllerState, broker: BrokerImage) -> Iterator[VersionedRecord]:
    change = BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=FENCE)
    yield from changes_for_leaving_broker(state, broker.id)
    yield change, 0


def unfence(state: ControllerState, broker: BrokerImage) -> Iterator[VersionedRecord]:
    change = BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=UNFENCE)
    yield change, 0
    yield from changes_for_joining_broker(state, broker.id)


def _begin_controlled_shutdown(state: ControllerState, broker: BrokerImage) -> Iterator[VersionedRecord]:
    if not broker.in_controlled_shutdown:
        change = BrokerRegistrationChangeRecord(
            broker_id=broker.id, broker_epoch=broker.epoch, in_controlled_shutdown=ENTER_CONTROLLED_SHUTDOWN
        )
        yield change, 1
    yield from changes_for_leaving_broker(state, broker.id)


def unregister_broker(
    state: ControllerState, request: UnregisterBrokerRequest
) -> Decision[UnregisterBrokerResponse]:
    broker = state.image.cluster.brokers.get(request.broker_id)
    if broker is None:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker {request.broker_id} is not registered")
    record = UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch)
    changes = changes_for_leaving_broker(state, broker.id)
    return chain(changes, [(record, 0)]), UnregisterBrokerResponse()


def _leads(state: ControllerState, broker_id: int) -> bool:
    return any(partition.leader == broker_id for _, _, partition in state.image.topics.partitions())
