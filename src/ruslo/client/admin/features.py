"""Feature levels of the cluster: describe and change them (KIP-584, KIP-778)."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ruslo.client.wire.cluster import Cluster
from ruslo.net.channel import check_code
from ruslo.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from ruslo.protocol.messages.update_features_response import UpdateFeaturesResponse

_VALIDATE_ONLY_VERSION = 1
"""The first version of UpdateFeatures with upgrade types and validation."""


class UpgradeType(enum.IntEnum):
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class Feature(NamedTuple):
    name: str
    finalized: int
    """The finalized level; 0 when the feature is disabled."""
    supported_min: int
    supported_max: int


@dataclass(frozen=True, slots=True)
class ClusterFeatures:
    """What one node supports, and what it knows to be finalized."""

    features: tuple[Feature, ...]
    epoch: int
    """The metadata offset of the finalized levels; -1 if the node does not know them."""


class Features:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def describe(self, node_id: int | None = None) -> ClusterFeatures:
        """The features of a broker, or of any, from the ApiVersions response that opened the connection."""
        if node_id is None:
            connection = await self._cluster.any_connection()
        else:
            connection = await self._cluster.connection(node_id)
        response = connection.api_versions
        assert response is not None, "an open connection has negotiated"
        finalized = {feature.name: feature.max_version_level for feature in response.finalized_features}
        features = (
            Feature(feature.name, finalized.get(feature.name, 0), feature.min_version, feature.max_version)
            for feature in sorted(response.supported_features, key=lambda feature: feature.name)
        )
        return ClusterFeatures(tuple(features), response.finalized_features_epoch)

    async def update(
        self, levels: Mapping[str, int], upgrade_type: UpgradeType, *, validate_only: bool = False
    ) -> None:
        """Change all of the levels or none."""
        request = UpdateFeaturesRequest(
            feature_updates=[
                FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=upgrade_type)
                for name, level in levels.items()
            ],
            validate_only=validate_only,
        )

        async def attempt() -> None:
            response = await self._cluster.controller(
                request, UpdateFeaturesResponse, min_version=_VALIDATE_ONLY_VERSION
            )
            check_code(response.error_code, response.error_message)
            for result in response.results:
                check_code(result.error_code, result.error_message)

        await self._cluster.retrying(attempt)
