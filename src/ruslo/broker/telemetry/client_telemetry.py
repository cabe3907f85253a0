"""Client telemetry (KIP-714): gives clients their subscriptions, and exports the metrics that they push.

A push is decompressed in a thread and decoded in slices. A limited number of pushes is handled at a time;
clients send a further one again at their next interval.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from ruslo.broker.counters.client_series import ClientSeries
from ruslo.broker.metadata.loader import MetadataLoader
from ruslo.broker.requests.context import RequestContext
from ruslo.broker.scheduling.scheduler import Priority, Scheduler, Steps
from ruslo.broker.scheduling.worker_thread import WorkerThread
from ruslo.config.definition import InvalidConfig
from ruslo.config.keys.client_metrics import CLIENT_METRICS as KEYS
from ruslo.config.keys.client_metrics import INTERVAL_MS, MATCH, METRICS
from ruslo.machines.controller.config_image import CLIENT_METRICS
from ruslo.machines.controller.delta import MetadataDelta
from ruslo.machines.controller.image import MetadataImage
from ruslo.machines.telemetry import ClientInstance, ClientInstances, Subscription
from ruslo.model.client_match import ClientMatch
from ruslo.model.clock import Clock
from ruslo.model.errors import ErrorCode, KafkaError, ProtocolError
from ruslo.model.ids import ZERO_UUID, Uuid, is_reserved, uuid_to_text
from ruslo.protocol.messages.get_telemetry_subscriptions_request import GetTelemetrySubscriptionsRequest
from ruslo.protocol.messages.get_telemetry_subscriptions_response import GetTelemetrySubscriptionsResponse
from ruslo.protocol.messages.push_telemetry_request import PushTelemetryRequest
from ruslo.protocol.otlp_metrics import MAX_TEXT_CHARS, Point, decode_metrics
from ruslo.records.compression import Codec, CompressedDataError, DecompressedTooLargeError, decompress

ACCEPTED_COMPRESSION: Final = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)
"""The codecs in the order of preference, as in Kafka. Pushes without compression are accepted, too."""
MAX_PENDING_PUSHES: Final = 32
_DECODED_AT_A_TIME: Final = 4

logger = logging.getLogger(__name__)


class ClientTelemetry:
    def __init__(
        self,
        metadata: MetadataLoader,
        clock: Clock,
        scheduler: Scheduler,
        max_bytes: int,
        new_uuid: Callable[[], Uuid],
    ) -> None:
        self._clock = clock
        self._scheduler = scheduler
        self._max_bytes = max_bytes
        self._new_uuid = new_uuid
        self.series = ClientSeries()
        self.instances = ClientInstances(self.series.remove)
        self._thread = WorkerThread("telemetry")
        self._pending = 0
        self._decoding = asyncio.Semaphore(_DECODED_AT_A_TIME)
        metadata.subscribe(self._on_metadata_change)

    def expire(self) -> None:
        """Drop the series of silent clients; called before each scrape."""
        self.instances.expire(self._clock.monotonic_ms())

    def subscriptions_of(
        self, request: GetTelemetrySubscriptionsRequest, context: RequestContext
    ) -> GetTelemetrySubscriptionsResponse:
        """Raises KafkaError if the client may not request its subscriptions yet."""
        instance_id = request.client_instance_id
        if instance_id == ZERO_UUID:
            instance_id = self._new_uuid()
        attributes = _attributes(instance_id, context)
        instance = self.instances.get(instance_id, attributes, self._clock.monotonic_ms())
        return GetTelemetrySubscriptionsResponse(
            client_instance_id=instance.id,
            subscription_id=instance.subscription_id,
            accepted_compression_types=list(ACCEPTED_COMPRESSION),
            push_interval_ms=instance.interval_ms,
            telemetry_max_bytes=self._max_bytes,
            delta_temporality=True,
            requested_metrics=list(instance.metrics),
        )

    async def push(self, request: PushTelemetryRequest, context: RequestContext) -> None:
        """Export the metrics of a push; raises KafkaError if it is rejected."""
        instance_id = request.client_instance_id
        if is_reserved(instance_id):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"{uuid_to_text(instance_id)} is not the id of a client instance"
            )
        payload = bytes(request.metrics)
        instance = self.instances.admit_push(
            instance_id,
            _attributes(instance_id, context),
            self._clock.monotonic_ms(),
            subscription_id=request.subscription_id,
            terminating=request.terminating,
            has_known_compression=request.compression_type in Codec._value2member_map_,
            size=len(payload),
            max_bytes=self._max_bytes,
        )
        if not payload:
            return
        try:
            await self._export(instance, request.compression_type, payload, context)
        except KafkaError as error:
            instance.last_error = error.code
            raise

    async def _export(
        self, instance: ClientInstance, codec: int, payload: bytes, context: RequestContext
    ) -> None:
        if self._pending >= MAX_PENDING_PUSHES:
            raise KafkaError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                f"The broker already handles {MAX_PENDING_PUSHES} pushes. Push again after the next interval",
            )
        self._pending += 1
        try:
            async with self._decoding:
                if codec != Codec.NONE:
                    payload = await self._thread.run(decompress, codec, payload, self._max_bytes)
                labels = {
                    "client_id": (context.client_id or "")[:MAX_TEXT_CHARS],
                    "client_instance_id": uuid_to_text(instance.id),
                }
                await self._scheduler.run(
                    self._decode_and_export(instance, labels, payload),
                    priority=Priority.BACKGROUND,
                    name="metrics of a client",
                )
        except DecompressedTooLargeError:
            raise KafkaError(
                ErrorCode.TELEMETRY_TOO_LARGE,
                f"The metrics decompress to more than {self._max_bytes} bytes (telemetry.max.bytes)",
            ) from None
        except (CompressedDataError, ProtocolError) as error:
            logger.info(
                "rejected the metrics of client %s at %s: %s", context.client_id, context.peer_host, error
            )
            raise KafkaError(ErrorCode.INVALID_RECORD, f"The metrics are malformed: {error}") from None
        finally:
            self._pending -= 1

    def _decode_and_export(
        self, instance: ClientInstance, labels: Mapping[str, str], payload: bytes
    ) -> Steps[None]:
        """Nothing is exported before the whole payload is known to be valid."""
        points: list[Point] = []
        for each in (yield from decode_metrics(payload)):
            if instance.is_subscribed(each.name):
                points.append(each)
            yield
        is_known = partial(self.instances.__contains__, instance.id)
        yield from self.series.update(instance.id, labels, points, is_known)

    def _on_metadata_change(self, delta: MetadataDelta, image: MetadataImage) -> None:
        for resource_type, name in delta.changed_configs:
            if resource_type == CLIENT_METRICS:
                self.instances.subscribe(name, _subscription(name, image.configs.of(CLIENT_METRICS, name)))


def _subscription(name: str, configs: Mapping[str, str]) -> Subscription | None:
    """None for a subscription without configs: it is deleted."""
    if not configs:
        return None
    values = {key.name: key.default for key in KEYS}
    try:
        values |= {key: KEYS[key].parse(text) for key, text in configs.items() if key in KEYS}
    except InvalidConfig as error:
        # Apache Kafka has written it: its regular expressions are those of Java.
        logger.warning("ignoring the client metrics subscription %s: %s", name, error)
        return None
    metrics, interval_ms, patterns = values[METRICS], values[INTERVAL_MS], values[MATCH]
    assert isinstance(metrics, tuple)
    assert isinstance(interval_ms, int)
    assert isinstance(patterns, tuple)
    return Subscription(metrics, interval_ms, ClientMatch(patterns))


def _attributes(instance_id: Uuid, context: RequestContext) -> dict[str, str]:
    """What the patterns of subscriptions match."""
    connection = context.connection
    attributes = {
        "client_instance_id": uuid_to_text(instance_id),
        "client_id": context.client_id or "",
        "client_source_address": context.peer_host,
    }
    if connection is not None:
        name, version = connection.client_software
        attributes["client_software_name"] = name
        attributes["client_software_version"] = version
        attributes["client_source_port"] = str(connection.peer_port)
    return attributes
