"""Feature levels (KIP-584): the ranges that this release supports, and UpdateFeatures."""

from __future__ import annotations

import enum

from ruslo.machines.controller.broker_image import FeatureRange
from ruslo.machines.controller.config_image import BROKER, CLUSTER_DEFAULT
from ruslo.machines.controller.feature_image import ELIGIBLE_LEADER_REPLICAS, KRAFT_VERSION, METADATA_VERSION
from ruslo.machines.controller.feature_levels import (
    LEVELS,
    can_downgrade_metadata,
    latest_level,
    missing_dependency,
)
from ruslo.machines.controller.records import (
    CONTROLLER_REGISTRATION_SUPPORTED,
    LATEST_METADATA_VERSION,
    MINIMUM_METADATA_VERSION,
    UNSTABLE_METADATA_VERSION,
    VersionedRecord,
)
from ruslo.machines.controller.state import MIN_INSYNC_REPLICAS, ControllerState, Decision
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.messages.config_record import ConfigRecord
from ruslo.protocol.messages.feature_level_record import FeatureLevelRecord
from ruslo.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from ruslo.protocol.messages.update_features_response import UpdatableFeatureResult, UpdateFeaturesResponse

SUPPORTED_FEATURES = {
    METADATA_VERSION: FeatureRange(MINIMUM_METADATA_VERSION, LATEST_METADATA_VERSION),
    **{name: FeatureRange(0, latest_level(name)) for name in LEVELS},
}
"""The ranges of Apache Kafka 4.3, so that either system starts on the other's data directory."""
UNSTABLE_FEATURES = SUPPORTED_FEATURES | {
    METADATA_VERSION: FeatureRange(MINIMUM_METADATA_VERSION, UNSTABLE_METADATA_VERSION)
}
"""The ranges of a node with ``unstable.feature.versions.enable``."""


def supported_features(*, unstable: bool) -> dict[str, FeatureRange]:
    return UNSTABLE_FEATURES if unstable else SUPPORTED_FEATURES


class UpgradeType(enum.IntEnum):
    UNKNOWN = 0
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def update_features(
    state: ControllerState, request: UpdateFeaturesRequest
) -> Decision[UpdateFeaturesResponse]:
    """All updates or none. Only versions below 2 have results per feature."""
    records: list[VersionedRecord] = []
    levels = {METADATA_VERSION: state.metadata_version, **state.image.features.finalized}
    for update in request.feature_updates:
        levels[update.feature] = update.max_version_level
    seen: set[str] = set()
    for update in request.feature_updates:
        try:
            if update.feature in seen:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, f"Feature {update.feature} is in the request twice"
                )
            seen.add(update.feature)
            records += _update(state, update, levels, validate_only=request.validate_only)
        except KafkaError as error:
            return [], UpdateFeaturesResponse(
                error_code=error.code,
                error_message="The update failed for all features since the following feature had an error: "
                f"{error.message}",
            )
    # The new metadata.version determines how the records after it are read.
    records.sort(key=lambda each: getattr(each[0], "name", None) != METADATA_VERSION)
    results = [UpdatableFeatureResult(feature=update.feature) for update in request.feature_updates]
    return [] if request.validate_only else records, UpdateFeaturesResponse(results=results)


def _update(
    state: ControllerState, update: FeatureUpdateKey, levels: dict[str, int], *, validate_only: bool
) -> list[VersionedRecord]:
    name, level = update.feature, update.max_version_level
    upgrade_type = UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else update.upgrade_type
    supported = state.supported_features.get(name)
    if supported is None:
        raise _rejected(name, level, "This controller does not support this feature.")
    if level < 0 or level not in supported:
        raise _rejected(
            name,
            level,
            f"Local controller {state.settings.node_id} only supports versions "
            f"{supported.min_version}-{supported.max_version}",
        )
    _check_nodes(state, name, level)
    current = _current_level(state, name)
    if level < current and upgrade_type not in (UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE):
        raise _rejected(
            name,
            level,
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or "
            "unsafe downgrade.",
        )
    if level > current and upgrade_type != UpgradeType.UPGRADE:
        raise _rejected(name, level, "Can't downgrade to a newer version.")
    if name == KRAFT_VERSION:
        # No metadata record holds it: the quorum raises it itself, after this validation.
        if level < current or (level > current and not validate_only):
            raise _rejected(name, level, f"It is {current} and can only be raised, by the quorum itself.")
        return []
    if name == METADATA_VERSION:
        if level < current and not can_downgrade_metadata(current, level):
            raise _refused_downgrade(current, level, upgrade_type)
    elif (missing := missing_dependency(name, level, levels)) is not None:
        raise _rejected(name, level, f"It needs {missing[0]} {missing[1]} or later.")
    if level == current:
        return []
    records: list[VersionedRecord] = [(FeatureLevelRecord(name=name, feature_level=level), 0)]
    if name == ELIGIBLE_LEADER_REPLICAS and level:
        records += elr_safety_records(state)
    return records


def _current_level(state: ControllerState, name: str) -> int:
    if name == KRAFT_VERSION:
        return state.kraft_version
    return state.metadata_version if name == METADATA_VERSION else state.image.features.level(name)


def _check_nodes(state: ControllerState, name: str, level: int) -> None:
    """Every node, even a fenced one, must support the level: it may come back at any moment."""
    nodes = [(f"Broker {broker.id}", broker.features) for broker in state.image.cluster.brokers.values()]
    for controller in state.image.cluster.controllers.values():
        ranges = {
            each.name: FeatureRange(each.min_supported_version, each.max_supported_version)
            for each in controller.features
        }
        nodes.append((f"Controller {controller.controller_id}", ranges))
    for node, ranges in nodes:
        if level not in ranges.get(name, FeatureRange(0, 0)):
            raise _rejected(name, level, f"{node} does not support this feature.")
    if state.metadata_version >= CONTROLLER_REGISTRATION_SUPPORTED:
        known = {state.settings.node_id, *state.image.cluster.controllers}
        for voter in sorted(state.settings.voter_ids - known):
            raise _rejected(
                name, level, f"controller {voter} has not registered, and may not support this feature"
            )


def elr_safety_records(state: ControllerState) -> list[VersionedRecord]:
    """ELR needs one min.insync.replicas, written as the cluster default, and none on single brokers."""
    records: list[VersionedRecord] = []
    configs = state.image.configs
    if MIN_INSYNC_REPLICAS not in configs.of(BROKER, CLUSTER_DEFAULT):
        value = str(state.settings.min_insync_replicas)
        records.append(
            (
                ConfigRecord(
                    resource_type=BROKER, resource_name=CLUSTER_DEFAULT, name=MIN_INSYNC_REPLICAS, value=value
                ),
                0,
            )
        )
    for (resource_type, resource_name), values in configs.by_resource.items():
        if resource_type == BROKER and resource_name != CLUSTER_DEFAULT and MIN_INSYNC_REPLICAS in values:
            records.append(
                (
                    ConfigRecord(
                        resource_type=BROKER,
                        resource_name=resource_name,
                        name=MIN_INSYNC_REPLICAS,
                        value=None,
                    ),
                    0,
                )
            )
    return records


def _rejected(name: str, level: int, reason: str) -> KafkaError:
    message = f"Invalid update version {level} for feature {name}. {reason}"
    return KafkaError(ErrorCode.INVALID_UPDATE_VERSION, message)


def _refused_downgrade(current: int, level: int, upgrade_type: int) -> KafkaError:
    reason = "Refusing to perform the requested downgrade because it might delete metadata information."
    if upgrade_type == UpgradeType.UNSAFE_DOWNGRADE:
        # Apache Kafka does not support it either.
        reason = "Unsafe metadata downgrade is not supported in this version."
    return KafkaError(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"Unsupported {METADATA_VERSION} downgrade from {current} to {level}. {reason}",
    )
