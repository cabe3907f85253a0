"""The configuration in force: the property file, overridden by the dynamic configs of the metadata log
(KIP-226)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TypeAlias

from ruslo.broker.metadata.loader import MetadataLoader
from ruslo.config.broker import BrokerConfig
from ruslo.config.limits import LONG_MAX
from ruslo.config.log_config import LogConfig
from ruslo.machines.controller.config_image import BROKER, CLUSTER_DEFAULT, TOPIC
from ruslo.machines.controller.delta import MetadataDelta
from ruslo.machines.controller.image import MetadataImage
from ruslo.model.errors import ConfigError

logger = logging.getLogger(__name__)

BrokerSubscriber: TypeAlias = Callable[[BrokerConfig], None]
TopicSubscriber: TypeAlias = Callable[[str, LogConfig], None]


class DynamicConfig:
    """Create it before subscribers of the metadata that read topic configs, so that it is notified first."""

    def __init__(self, static: BrokerConfig, metadata: MetadataLoader, *, node_id: int) -> None:
        self.current = static
        self._static = static
        self._metadata = metadata
        self._node_id = node_id
        self._log_configs: dict[tuple[tuple[str, str], ...], LogConfig] = {}
        """By overrides: thousands of topics share a few of them."""
        self._broker_subscribers: list[BrokerSubscriber] = []
        self._topic_subscribers: list[TopicSubscriber] = []
        metadata.subscribe(self._on_metadata_change)

    def subscribe(self, subscriber: BrokerSubscriber) -> None:
        """Call the subscriber with the broker's configuration, now and after every change.

        During a start the dynamic configs may be known before the subscriber exists.
        """
        self._broker_subscribers.append(subscriber)
        subscriber(self.current)

    def subscribe_topics(self, subscriber: TopicSubscriber) -> None:
        """Call the subscriber with a topic's name and configuration after every change of an existing
        topic."""
        self._topic_subscribers.append(subscriber)

    def dynamic_rate(self, key: str) -> int:
        """A byte rate that can only be set dynamically; unlimited if it is not set."""
        configs = self._metadata.image.configs
        for resource in (str(self._node_id), CLUSTER_DEFAULT):
            value = configs.of(BROKER, resource).get(key)
            if value is not None:
                return int(value)
        return LONG_MAX

    def log_config(self, topic: str) -> LogConfig:
        overrides = self._metadata.image.configs.of_topic(topic)
        if not overrides:
            return self.current.default_log_config
        key = tuple(sorted(overrides.items()))
        config = self._log_configs.get(key)
        if config is None:
            config = self._log_configs[key] = self._usable_log_config(topic, overrides)
        return config

    def _on_metadata_change(self, delta: MetadataDelta, image: MetadataImage) -> None:
        own_resources = {(BROKER, CLUSTER_DEFAULT), (BROKER, str(self._node_id))}
        if delta.changed_configs & own_resources:
            self._reconfigure(image)
            changed_topics = list(image.topics.by_name)
        else:
            created = {topic.name for topic in delta.created_topics.values()}
            changed_topics = [
                name
                for resource_type, name in delta.changed_configs
                if resource_type == TOPIC and name in image.topics.by_name and name not in created
            ]
        for topic in changed_topics:
            config = self.log_config(topic)
            for subscriber in self._topic_subscribers:
                subscriber(topic, config)

    def _reconfigure(self, image: MetadataImage) -> None:
        defaults = image.configs.of(BROKER, CLUSTER_DEFAULT)
        own = image.configs.of(BROKER, str(self._node_id))
        try:
            self.current = self._static.with_dynamic(defaults, own)
        except ConfigError as error:
            # The controller validates changes, but not against this node's property file.
            logger.error("invalid dynamic configs for this broker, keeping the previous ones: %s", error)
            return
        self._log_configs.clear()
        for subscriber in self._broker_subscribers:
            subscriber(self.current)

    def _usable_log_config(self, topic: str, overrides: Mapping[str, str]) -> LogConfig:
        try:
            return self.current.log_config(overrides)
        except ConfigError as error:
            # Another release may have written it: a topic must not be lost because of a config.
            logger.error("invalid configs of topic %s, using the broker's defaults: %s", topic, error)
            return self.current.default_log_config
