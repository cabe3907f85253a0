"""The state of the cluster, built from the metadata log.

Only ``replay`` changes an image, in place. Partitions, brokers and their parts are immutable values, so a
caller that needs the state of one moment keeps those, never the image. The parts of the image count their
changes (``version``) for caches derived from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ruslo.machines.controller.broker_image import ClusterImage
from ruslo.machines.controller.config_image import ConfigsImage
from ruslo.machines.controller.delta import MetadataDelta
from ruslo.machines.controller.feature_image import FeaturesImage
from ruslo.machines.controller.records import MetadataRecord, VersionedRecord
from ruslo.machines.controller.security_image import SecurityImage
from ruslo.machines.controller.topic_image import TopicsImage
from ruslo.model.errors import ProtocolError
from ruslo.protocol.messages.abort_transaction_record import AbortTransactionRecord
from ruslo.protocol.messages.access_control_entry_record import AccessControlEntryRecord
from ruslo.protocol.messages.begin_transaction_record import BeginTransactionRecord
from ruslo.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from ruslo.protocol.messages.clear_elr_record import ClearElrRecord
from ruslo.protocol.messages.client_quota_record import ClientQuotaRecord
from ruslo.protocol.messages.config_record import ConfigRecord
from ruslo.protocol.messages.delegation_token_record import DelegationTokenRecord
from ruslo.protocol.messages.end_transaction_record import EndTransactionRecord
from ruslo.protocol.messages.feature_level_record import FeatureLevelRecord
from ruslo.protocol.messages.fence_broker_record import FenceBrokerRecord
from ruslo.protocol.messages.no_op_record import NoOpRecord
from ruslo.protocol.messages.partition_change_record import PartitionChangeRecord
from ruslo.protocol.messages.partition_record import PartitionRecord
from ruslo.protocol.messages.producer_ids_record import ProducerIdsRecord
from ruslo.protocol.messages.register_broker_record import RegisterBrokerRecord
from ruslo.protocol.messages.register_controller_record import RegisterControllerRecord
from ruslo.protocol.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from ruslo.protocol.messages.remove_delegation_token_record import RemoveDelegationTokenRecord
from ruslo.protocol.messages.remove_topic_record import RemoveTopicRecord
from ruslo.protocol.messages.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from ruslo.protocol.messages.topic_record import TopicRecord
from ruslo.protocol.messages.unfence_broker_record import UnfenceBrokerRecord
from ruslo.protocol.messages.unregister_broker_record import UnregisterBrokerRecord
from ruslo.protocol.messages.user_scram_credential_record import UserScramCredentialRecord
from ruslo.protocol.messages.zk_migration_state_record import ZkMigrationStateRecord


@dataclass(slots=True, eq=False)
class MetadataImage:
    features: FeaturesImage = field(default_factory=FeaturesImage)
    cluster: ClusterImage = field(default_factory=ClusterImage)
    topics: TopicsImage = field(default_factory=TopicsImage)
    configs: ConfigsImage = field(default_factory=ConfigsImage)
    security: SecurityImage = field(default_factory=SecurityImage)
    next_producer_id: int = -1
    """The first producer id that was never allocated; -1: none was."""
    offset: int = -1
    """The offset of the last replayed record."""
    epoch: int = -1
    """The raft epoch of that record."""

    def copy(self) -> MetadataImage:
        """An independent copy. It takes a millisecond or two for thousands of partitions, because the
        immutable parts are shared."""
        copy = MetadataImage()
        copy.features = self.features.copy()
        copy.cluster = self.cluster.copy()
        copy.topics = self.topics.copy()
        copy.configs = self.configs.copy()
        copy.security = self.security.copy()
        copy.next_producer_id = self.next_producer_id
        copy.offset, copy.epoch = self.offset, self.epoch
        return copy

    def replay(self, record: MetadataRecord, delta: MetadataDelta | None = None) -> None:
        try:
            apply = _REPLAY[type(record)]
        except KeyError:
            # Skipping an unknown record would let this node diverge from all others.
            raise ProtocolError(
                f"Metadata record {type(record).__name__} is unknown to this release; a newer release wrote "
                "it"
            ) from None
        apply(self, record, delta)

    def to_records(self, metadata_version: int | None = None) -> Iterator[VersionedRecord]:
        """The records of a snapshot, in Kafka's order: readers rely on metadata.version being the first."""
        if metadata_version is None:
            metadata_version = self.features.metadata_version
        yield from self.features.to_records(metadata_version)
        yield from self.cluster.to_records(metadata_version)
        yield from self.topics.to_records(metadata_version)
        yield from self.configs.to_records()
        yield from self.security.quota_records()
        if self.next_producer_id >= 0:
            yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=self.next_producer_id), 0
        yield from self.security.credential_records(metadata_version)

    @property
    def is_empty(self) -> bool:
        """Nothing was ever written: the cluster has not been bootstrapped."""
        return not self.features.finalized and not self.cluster.brokers and not self.topics.by_id

    def _replay_remove_topic(self, record: RemoveTopicRecord, delta: MetadataDelta | None) -> None:
        topic = self.topics.replay_remove_topic(record, delta)
        self.configs.forget_topic(topic.name, delta)

    def _replay_producer_ids(self, record: ProducerIdsRecord, delta: MetadataDelta | None) -> None:
        self.next_producer_id = record.next_producer_id
        if delta is not None:
            delta.producer_ids_changed = True


# Any: each function takes the record type of its key.
_Apply: TypeAlias = Callable[[MetadataImage, Any, MetadataDelta | None], None]


def _no_state(image: MetadataImage, record: MetadataRecord, delta: MetadataDelta | None) -> None:
    """Transaction markers are resolved before replay; NoOp and ZooKeeper records have no state."""


_REPLAY: dict[type, _Apply] = {
    PartitionChangeRecord: lambda image, record, delta: image.topics.replay_partition_change(record, delta),
    PartitionRecord: lambda image, record, delta: image.topics.replay_partition(record, delta),
    TopicRecord: lambda image, record, delta: image.topics.replay_topic(record, delta),
    RemoveTopicRecord: MetadataImage._replay_remove_topic,
    ClearElrRecord: lambda image, record, delta: image.topics.replay_clear_elr(record, delta),
    ConfigRecord: lambda image, record, delta: image.configs.replay_config(record, delta),
    FeatureLevelRecord: lambda image, record, delta: image.features.replay_feature_level(record, delta),
    RegisterBrokerRecord: lambda image, record, delta: image.cluster.replay_register_broker(record, delta),
    UnregisterBrokerRecord: lambda image, record, delta: image.cluster.replay_unregister_broker(
        record, delta
    ),
    BrokerRegistrationChangeRecord: lambda image, record, delta: image.cluster.replay_registration_change(
        record, delta
    ),
    FenceBrokerRecord: lambda image, record, delta: image.cluster.replay_fence_broker(record, delta),
    UnfenceBrokerRecord: lambda image, record, delta: image.cluster.replay_unfence_broker(record, delta),
    RegisterControllerRecord: lambda image, record, _delta: image.cluster.replay_register_controller(record),
    ProducerIdsRecord: MetadataImage._replay_producer_ids,
    ClientQuotaRecord: lambda image, record, delta: image.security.replay_quota(record, delta),
    AccessControlEntryRecord: lambda image, record, delta: image.security.replay_acl(record, delta),
    RemoveAccessControlEntryRecord: lambda image, record, delta: image.security.replay_remove_acl(
        record, delta
    ),
    UserScramCredentialRecord: lambda image, record, delta: image.security.replay_scram(record, delta),
    RemoveUserScramCredentialRecord: lambda image, record, delta: image.security.replay_remove_scram(
        record, delta
    ),
    DelegationTokenRecord: lambda image, record, delta: image.security.replay_token(record, delta),
    RemoveDelegationTokenRecord: lambda image, record, delta: image.security.replay_remove_token(
        record, delta
    ),
    BeginTransactionRecord: _no_state,
    EndTransactionRecord: _no_state,
    AbortTransactionRecord: _no_state,
    NoOpRecord: _no_state,
    ZkMigrationStateRecord: _no_state,
}
