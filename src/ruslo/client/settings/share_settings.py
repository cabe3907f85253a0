"""The settings of a share consumer, parsed from Kafka's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ruslo.client.settings.bootstrap_servers import parse_bootstrap
from ruslo.client.settings.channel_security import channel_security, is_security_setting
from ruslo.client.settings.checking import Checked, required_bootstrap, unknown_name
from ruslo.client.settings.setting import ClientConfigValue, as_text
from ruslo.client.settings.tables import SHARE_CONSUMER
from ruslo.config.definition import ConfigProblem, InvalidConfig
from ruslo.machines.share_partition.states import AcquireMode
from ruslo.net.channel import ChannelSettings


class ShareConsumerSettings(NamedTuple):
    bootstrap_servers: str
    channel: ChannelSettings
    group_id: str
    rack_id: str | None
    explicit: bool
    """Whether the application acknowledges each record."""
    acquire_mode: AcquireMode
    max_poll_records: int
    max_poll_interval_ms: int
    fetch_max_wait_ms: int
    fetch_min_bytes: int
    fetch_max_bytes: int
    api_timeout_ms: int
    retry_backoff_ms: int


def share_consumer_settings(config: Mapping[str, ClientConfigValue]) -> ShareConsumerSettings:
    """Raises InvalidConfig for settings that a share consumer does not have."""
    checked = Checked("share consumer", SHARE_CONSUMER, config)
    for name in checked.foreign:
        # librdkafka's names of security settings are settings of the native client, too.
        if not is_security_setting(name):
            raise unknown_name("share consumer", SHARE_CONSUMER, name, librdkafka=False)
    servers = parse_bootstrap(",".join(required_bootstrap(checked)))
    group_id = checked.text("group.id")
    if not group_id:
        raise InvalidConfig(ConfigProblem("group.id", None, "it is missing", "name a share group"))
    security = {
        name: as_text(value)
        for name, value in config.items()
        if is_security_setting(name) and value is not None and not callable(value)
    }
    return ShareConsumerSettings(
        ",".join(map(str, servers)),
        ChannelSettings(
            client_id=checked.text("client.id") or ChannelSettings().client_id,
            connect_timeout_ms=checked.whole("socket.connection.setup.timeout.ms"),
            request_timeout_ms=checked.whole("request.timeout.ms"),
            security=channel_security(security),
        ),
        group_id,
        checked.text("client.rack") or None,
        checked.text("share.acknowledgement.mode") == "explicit",
        AcquireMode[checked.text("share.acquire.mode").upper()],
        checked.whole("max.poll.records"),
        checked.whole("max.poll.interval.ms"),
        checked.whole("fetch.max.wait.ms"),
        checked.whole("fetch.min.bytes"),
        checked.whole("fetch.max.bytes"),
        checked.whole("default.api.timeout.ms"),
        checked.whole("retry.backoff.ms"),
    )
