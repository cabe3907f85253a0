"""How ``kafka.*`` options configure the native client.

Every property of Kafka's consumer is accepted, so code written for Spark's Kafka connector works unchanged.
Some properties configure the client, some are ignored. Security properties have Kafka's names and values.
They may refer to secrets, so Spark's plans and its UI show only the reference: ``${env:NAME}``,
``${file:PATH:KEY}`` for a key of a property file, ``${dir:DIRECTORY:FILE}`` for the content of a file.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from ruslo.client.settings.bootstrap_servers import parse_bootstrap
from ruslo.client.settings.channel_security import channel_security, is_security_setting
from ruslo.client.wire.cluster import Cluster
from ruslo.config.providers import resolve_providers
from ruslo.model.errors import ConfigError
from ruslo.model.secret import Secret
from ruslo.net.channel import ChannelSettings
from ruslo.net.errors import BrokerUnreachable
from ruslo.pipeline.suggestions import nearest

BOOTSTRAP: Final = "bootstrap.servers"
DEFAULT_CLIENT_ID: Final = "ruslo-spark"

_USED: Final = frozenset(
    {
        BOOTSTRAP,
        "client.id",
        "default.api.timeout.ms",
        "group.id",
        "isolation.level",
        "max.partition.fetch.bytes",
        "request.timeout.ms",
        "retry.backoff.ms",
        "socket.connection.setup.timeout.ms",
    }
)
_IGNORED: Final = frozenset(
    {
        "allow.auto.create.topics",
        "auto.commit.interval.ms",
        "auto.include.jmx.reporter",
        "check.crcs",
        "client.dns.lookup",
        "client.rack",
        "connections.max.idle.ms",
        "enable.auto.commit",
        "enable.metrics.push",
        "exclude.internal.topics",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "group.instance.id",
        "group.protocol",
        "heartbeat.interval.ms",
        "max.poll.interval.ms",
        "max.poll.records",
        "metadata.max.age.ms",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partition.assignment.strategy",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retry.backoff.max.ms",
        "send.buffer.bytes",
        "session.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
    }
)
_PROVIDERS: Final = {
    "config.providers": "env,file,dir",
    "config.providers.env.class": "EnvVarConfigProvider",
    "config.providers.file.class": "FileConfigProvider",
    "config.providers.dir.class": "DirectoryConfigProvider",
}
_RETRY_BACKOFF_S = 0.25


@dataclass(frozen=True, slots=True)
class ClientProperties:
    """How to connect to the cluster. Plain values, which Spark pickles to tasks."""

    bootstrap: str
    client_id: str = DEFAULT_CLIENT_ID
    request_timeout_ms: int = 30_000
    connect_timeout_ms: int = 10_000
    api_timeout_ms: int = 60_000
    retry_backoff_ms: int = 50
    security: tuple[tuple[str, Secret], ...] = ()
    """Kafka's security settings. The files that they name must exist on the executors, too."""

    def new_cluster(self) -> Cluster:
        settings = ChannelSettings(
            client_id=self.client_id,
            connect_timeout_ms=self.connect_timeout_ms,
            request_timeout_ms=self.request_timeout_ms,
            security=channel_security({name: value.reveal() for name, value in self.security}),
        )
        return Cluster(
            self.bootstrap,
            settings=settings,
            api_timeout_ms=self.api_timeout_ms,
            retry_backoff_ms=self.retry_backoff_ms,
        )


def parse_client_properties(properties: Mapping[str, str]) -> ClientProperties:
    """Takes properties without their ``kafka.`` prefix; raises ConfigError for unsupported ones."""
    security = {name: value for name, value in properties.items() if is_security_setting(name)}
    for name in properties.keys() - security.keys():
        if name not in _USED and name not in _IGNORED:
            raise ConfigError(f"kafka.{name} is not a consumer property. {nearest(name, _USED | _IGNORED)}")
    resolved = resolve_providers({**security, **_PROVIDERS})
    security = {name: resolved[name] for name in sorted(security)}
    # An invalid setting is reported here, on the driver, and not by a task.
    channel_security(security)
    bootstrap = properties.get(BOOTSTRAP)
    if not bootstrap:
        raise ConfigError(f'kafka.{BOOTSTRAP} is missing: add .option("kafka.{BOOTSTRAP}", "host:9092")')
    parse_bootstrap(bootstrap)
    return ClientProperties(
        bootstrap,
        properties.get("client.id", DEFAULT_CLIENT_ID),
        _milliseconds(properties, "request.timeout.ms", 30_000),
        _milliseconds(properties, "socket.connection.setup.timeout.ms", 10_000),
        _milliseconds(properties, "default.api.timeout.ms", 60_000),
        _milliseconds(properties, "retry.backoff.ms", 50),
        tuple((name, Secret(value)) for name, value in security.items()),
    )


def _milliseconds(properties: Mapping[str, str], name: str, default: int) -> int:
    value = properties.get(name)
    if value is None:
        return default
    if not value.isdecimal():
        raise ConfigError(f"kafka.{name}={value}: give a whole number of milliseconds")
    return int(value)


@asynccontextmanager
async def reachable_cluster(client: ClientProperties) -> AsyncIterator[Cluster]:
    """A client that has reached a broker; retries for ``default.api.timeout.ms``.

    A wrong address is reported at once by the source. By the time a sink connects, the source has reached the
    brokers, so an unreachable broker is probably restarting and the query should survive that.
    """
    async with client.new_cluster() as cluster:
        deadline = time.monotonic() + client.api_timeout_ms / 1000
        while True:
            try:
                await cluster.metadata([])
                break
            except BrokerUnreachable:
                if time.monotonic() >= deadline:
                    raise
            await asyncio.sleep(_RETRY_BACKOFF_S)
        yield cluster
