"""The controller's state: the replayed image, and the little that no record holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Protocol, TypeAlias, TypeVar

from ruslo.machines.controller.broker_image import BrokerImage, FeatureRange
from ruslo.machines.controller.config_image import BROKER, CLUSTER_DEFAULT
from ruslo.machines.controller.image import MetadataImage
from ruslo.machines.controller.records import VersionedRecord
from ruslo.machines.controller.sessions import Sessions
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import Uuid, random_uuid
from ruslo.model.secret import Secret
from ruslo.protocol.message import Message

ResponseT = TypeVar("ResponseT", bound=Message, covariant=True)

Decision: TypeAlias = tuple[Iterable[VersionedRecord], ResponseT]
"""The records to append and the response to send once they are committed. Changes that may concern every
partition of the cluster are lazy."""

MAX_RECORDS_PER_REQUEST = 10_000
"""A request of a client must fit into one atomic batch."""

MIN_INSYNC_REPLICAS = "min.insync.replicas"
CORDONED_LOG_DIRS = "cordoned.log.dirs"
UNCLEAN_LEADER_ELECTION = "unclean.leader.election.enable"


ConfigChange: TypeAlias = tuple[str, int, str | None]
"""Key, operation (0 set, 1 delete, 2 append, 3 subtract), value."""


class ConfigRules(Protocol):
    """The rules of config keys, which the machine must not import.

    Both methods return the complete new configs of a resource, or raise KafkaError with the response's code.
    """

    def altered(
        self,
        resource_type: int,
        resource_name: str,
        current: Mapping[str, str],
        changes: Sequence[ConfigChange],
    ) -> Mapping[str, str]:
        """The configs after incremental changes."""
        ...

    def replaced(
        self,
        resource_type: int,
        resource_name: str,
        current: Mapping[str, str],
        new: Mapping[str, str | None],
    ) -> Mapping[str, str]:
        """The configs after a full replacement."""
        ...


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """The static configuration that the controller's decisions depend on."""

    node_id: int
    cluster_id: str
    voter_ids: frozenset[int] = frozenset()
    """The voters that ``controller.quorum.voters`` names; a dynamic quorum names none."""
    num_partitions: int = 1
    default_replication_factor: int = 1
    min_insync_replicas: int = 1
    unclean_leader_election_enable: bool = False
    broker_session_timeout_ms: int = 9000
    auto_leader_rebalance: bool = True
    leader_imbalance_check_ms: int = 300_000
    unclean_election_check_ms: int = 300_000
    token_secret: Secret | None = None
    """``delegation.token.secret.key``; None: there are no delegation tokens."""
    token_max_lifetime_ms: int = 604_800_000
    token_expiry_ms: int = 86_400_000
    token_check_interval_ms: int = 3_600_000


@dataclass(slots=True)
class ControllerState:
    settings: ControllerSettings
    rules: ConfigRules
    supported_features: Mapping[str, FeatureRange]
    random: Random
    new_uuid: Callable[[], Uuid] = random_uuid
    image: MetadataImage = field(default_factory=MetadataImage)
    sessions: Sessions = field(init=False)
    kraft_version: int = 0

    def __post_init__(self) -> None:
        self.sessions = Sessions(self.settings.broker_session_timeout_ms)

    @property
    def metadata_version(self) -> int:
        return self.image.features.metadata_version

    @property
    def elr_enabled(self) -> bool:
        return self.image.features.elr_enabled

    def is_active(self, broker_id: int) -> bool:
        broker = self.image.cluster.brokers.get(broker_id)
        return broker is not None and broker.active

    def registered_broker(self, broker_id: int, broker_epoch: int) -> BrokerImage:
        """The broker with this epoch. Raises KafkaError if it is not registered or has another epoch."""
        broker = self.image.cluster.brokers.get(broker_id)
        if broker is None:
            raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker {broker_id} is not registered")
        if broker.epoch != broker_epoch:
            raise KafkaError(
                ErrorCode.STALE_BROKER_EPOCH,
                f"Broker {broker_id} is registered with epoch {broker.epoch}, not {broker_epoch}",
            )
        return broker

    def min_insync_replicas(self, topic: str) -> int:
        value = self._topic_config(topic, MIN_INSYNC_REPLICAS)
        return self.settings.min_insync_replicas if value is None else int(value)

    def unclean_leader_election(self, topic: str) -> bool:
        value = self._topic_config(topic, UNCLEAN_LEADER_ELECTION)
        if value is None:
            return self.settings.unclean_leader_election_enable
        return value.lower() == "true"

    def _topic_config(self, topic: str, key: str) -> str | None:
        configs = self.image.configs
        value = configs.of_topic(topic).get(key)
        return configs.of(BROKER, CLUSTER_DEFAULT).get(key) if value is None else value


def check_record_count(count: int) -> None:
    if count > MAX_RECORDS_PER_REQUEST:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"The request needs at least {count} metadata records, but the limit is "
            f"{MAX_RECORDS_PER_REQUEST}. "
            "Split it",
        )
