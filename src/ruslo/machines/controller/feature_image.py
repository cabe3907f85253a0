"""Finalized feature levels, which every node of the cluster supports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ruslo.machines.controller.records import MINIMUM_METADATA_VERSION, VersionedRecord
from ruslo.protocol.messages.feature_level_record import FeatureLevelRecord

if TYPE_CHECKING:
    from ruslo.machines.controller.delta import MetadataDelta

METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"
"""Its level is in a control record of the raft log, not in the image."""
ELIGIBLE_LEADER_REPLICAS: Final = "eligible.leader.replicas.version"
TRANSACTION_VERSION: Final = "transaction.version"
GROUP_VERSION: Final = "group.version"
SHARE_VERSION: Final = "share.version"
STREAMS_VERSION: Final = "streams.version"


class FeaturesImage:
    __slots__ = ("finalized",)

    def __init__(self) -> None:
        self.finalized: dict[str, int] = {}
        """Levels above 0; a disabled feature is absent."""

    def copy(self) -> FeaturesImage:
        copy = FeaturesImage()
        copy.finalized = self.finalized.copy()
        return copy

    @property
    def metadata_version(self) -> int:
        return self.finalized.get(METADATA_VERSION, MINIMUM_METADATA_VERSION)

    @property
    def elr_enabled(self) -> bool:
        return self.finalized.get(ELIGIBLE_LEADER_REPLICAS, 0) > 0

    def level(self, name: str) -> int:
        return self.finalized.get(name, 0)

    def replay_feature_level(self, record: FeatureLevelRecord, delta: MetadataDelta | None) -> None:
        if record.feature_level:
            self.finalized[record.name] = record.feature_level
        else:
            self.finalized.pop(record.name, None)
        if delta is not None:
            delta.changed_features.add(record.name)

    def to_records(self, metadata_version: int) -> Iterator[VersionedRecord]:
        """metadata.version comes first: it determines how later records are read."""
        if METADATA_VERSION in self.finalized:
            yield FeatureLevelRecord(name=METADATA_VERSION, feature_level=metadata_version), 0
        for name, level in sorted(self.finalized.items()):
            if name != METADATA_VERSION:
                yield FeatureLevelRecord(name=name, feature_level=level), 0
