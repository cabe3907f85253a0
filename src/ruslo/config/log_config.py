"""The properties of a topic, each declared once, as a field of ``LogConfig``.

A field is named like its property, with underscores for dots. Most rows name the broker property that gives
the default, and take type, validator and doc from its row. A partition reads its ``LogConfig`` as plain
attributes; the hot path never looks a property up by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final

from ruslo.config.definition import (
    BOOLEAN,
    CLUSTER_WIDE,
    INT,
    LIST,
    MEDIUM,
    ConfigKey,
    ConfigProblem,
    ConfigTable,
    ConfigType,
    InvalidConfig,
    without_effect,
)
from ruslo.config.keys.inherited import first_set, inherited
from ruslo.config.validators import THROTTLED_REPLICAS, ConfigValue, Validator, at_least

if TYPE_CHECKING:
    from ruslo.config.broker import BrokerConfig

NO_LIMIT: Final = -1
SAME_AS_RETENTION: Final = -2
"""Value of local.retention.*: local disk retains as much as the topic (KIP-405)."""


def _row(key: ConfigKey) -> Any:
    """The row of a field; the field's name gives the property's name, its annotation the type for mypy."""
    return field(default=key.default, metadata={"row": key})


def _of_broker(broker_name: str, validator: Validator | None = None) -> Any:
    """A property that takes its default from a broker property."""
    return _row(inherited("", broker_name, validator))


def _of_topic(type_: ConfigType, default: ConfigValue, validator: Validator | None, doc: str) -> Any:
    """A property that only topics have."""
    return _row(ConfigKey("", type_, default, validator, MEDIUM, CLUSTER_WIDE, doc))


def _internal(type_: ConfigType, default: ConfigValue, validator: Validator, doc: str) -> Any:
    """A property that is shown only for topics that set it."""
    return _row(ConfigKey("", type_, default, validator, MEDIUM, CLUSTER_WIDE, doc, internal=True))


def _switch_without_effect(doc: str) -> Any:
    """A switch of a feature that Ruslo does not have yet: tiered storage."""
    return _row(*without_effect(ConfigKey("", BOOLEAN, False, None, MEDIUM, CLUSTER_WIDE, doc)))


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The resolved configuration of one partition's log. ``LogConfig()`` has Kafka's defaults."""

    cleanup_policy: tuple[str, ...] = _of_broker("log.cleanup.policy")
    compression_gzip_level: int = _of_broker("compression.gzip.level")
    compression_lz4_level: int = _of_broker("compression.lz4.level")
    compression_type: str = _of_broker("compression.type")
    compression_zstd_level: int = _of_broker("compression.zstd.level")
    delete_retention_ms: int = _of_broker("log.cleaner.delete.retention.ms")
    errors_deadletterqueue_group_enable: bool = _of_topic(
        BOOLEAN, False, None, "Let share groups write their dead letters to this topic (KIP-1191)."
    )
    file_delete_delay_ms: int = _of_broker("log.segment.delete.delay.ms")
    flush_messages: int = _of_broker("log.flush.interval.messages")
    flush_ms: int = _of_broker("log.flush.interval.ms", at_least(0))
    follower_replication_throttled_replicas: tuple[str, ...] = _of_topic(
        LIST, (), THROTTLED_REPLICAS, "Replicas whose followers are throttled: partition:broker, … or *."
    )
    index_interval_bytes: int = _of_broker("log.index.interval.bytes")
    internal_segment_bytes: int = _internal(
        INT,
        0,
        at_least(0),
        "Takes the place of segment.bytes, without its minimum: for tests of Apache Kafka.",
    )
    leader_replication_throttled_replicas: tuple[str, ...] = _of_topic(
        LIST, (), THROTTLED_REPLICAS, "Replicas whose leaders are throttled: partition:broker, … or *."
    )
    local_retention_bytes: int = _of_broker("log.local.retention.bytes")
    local_retention_ms: int = _of_broker("log.local.retention.ms")
    max_compaction_lag_ms: int = _of_broker("log.cleaner.max.compaction.lag.ms")
    max_decompressed_message_bytes: int = _of_broker("max.decompressed.message.bytes")
    max_message_bytes: int = _of_broker("message.max.bytes")
    message_timestamp_after_max_ms: int = _of_broker("log.message.timestamp.after.max.ms")
    message_timestamp_before_max_ms: int = _of_broker("log.message.timestamp.before.max.ms")
    message_timestamp_type: str = _of_broker("log.message.timestamp.type")
    min_cleanable_dirty_ratio: float = _of_broker("log.cleaner.min.cleanable.ratio")
    min_compaction_lag_ms: int = _of_broker("log.cleaner.min.compaction.lag.ms")
    min_insync_replicas: int = _of_broker("min.insync.replicas")
    preallocate: bool = _of_broker("log.preallocate")
    remote_copy_lag_bytes: int = _of_broker("log.remote.copy.lag.bytes")
    remote_copy_lag_ms: int = _of_broker("log.remote.copy.lag.ms")
    remote_log_copy_disable: bool = _switch_without_effect(
        "Stop copying to remote storage; remote data stays readable."
    )
    remote_log_delete_on_disable: bool = _switch_without_effect(
        "Delete the remote data when tiered storage is disabled."
    )
    remote_storage_enable: bool = _switch_without_effect("Copy old segments to remote storage.")
    retention_bytes: int = _of_broker("log.retention.bytes")
    retention_ms: int = _of_broker("log.retention.ms", at_least(NO_LIMIT))
    ruslo_record_validation: str = _of_broker("ruslo.record.validation")
    segment_bytes: int = _of_broker("log.segment.bytes")
    segment_index_bytes: int = _of_broker("log.index.size.max.bytes")
    segment_jitter_ms: int = _of_broker("log.roll.jitter.ms", at_least(0))
    segment_ms: int = _of_broker("log.roll.ms", at_least(1))
    unclean_leader_election_enable: bool = _of_broker("unclean.leader.election.enable")

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy


TOPIC: Final = ConfigTable(
    "topic", (each.metadata["row"]._replace(name=each.name.replace("_", ".")) for each in fields(LogConfig))
)


def field_of(name: str) -> str:
    """The field of ``LogConfig`` that holds a topic property."""
    return name.replace(".", "_")


def log_defaults(broker: BrokerConfig) -> LogConfig:
    """The configuration of a topic without overrides on this broker."""
    # Each field has the type of its property; a test checks it.
    values: dict[str, Any] = {
        field_of(key.name): first_set(key.synonyms, broker.get) for key in TOPIC if key.synonyms
    }
    values["retention_ms"] = max(values["retention_ms"], NO_LIMIT)
    return LogConfig(**values)


def apply_topic_overrides(defaults: LogConfig, overrides: Mapping[str, str]) -> LogConfig:
    """Raises InvalidConfig if a value is invalid. Unknown names are ignored, as in Kafka."""
    values: dict[str, Any] = {}
    problems: list[ConfigProblem] = []
    for name, text in overrides.items():
        key = TOPIC.get(name)
        if key is None:
            continue
        try:
            values[field_of(name)] = key.parse(text)
        except InvalidConfig as error:
            problems.extend(error.problems)
    if problems:
        raise InvalidConfig(*problems)
    if values.get("internal_segment_bytes"):
        values["segment_bytes"] = values["internal_segment_bytes"]
    return replace(defaults, **values) if values else defaults
