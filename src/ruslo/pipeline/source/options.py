"""The options of ``format("ruslo")`` for reading.

Options have the names of Spark's Kafka connector where it has them. These exist only here: ``isolation``,
``scan``, ``columns``, the ``…Bytes…`` and ``…PerTopic`` limits, ``bytesPerTask``, the payload formats with
``onDecodeError``, ``deadLetterTopic``, ``stagingPath`` and ``sinkName``, ``pushFilters``, and those of
share groups, ``share.…``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, cast

from ruslo.model.errors import ConfigError
from ruslo.pipeline.client_properties import ClientProperties, parse_client_properties
from ruslo.pipeline.dead_letters.options import StagingTarget, source_staging, source_topic
from ruslo.pipeline.option_values import OptionValues
from ruslo.pipeline.source import limits, subscription
from ruslo.pipeline.source.limits import NO_LIMITS, TriggerLimits, parse_limits
from ruslo.pipeline.source.positions import EARLIEST, LATEST, Positions, parse_ending, parse_starting, refuse
from ruslo.pipeline.source.share import options as share_options
from ruslo.pipeline.source.share.options import ShareOptions, parse_share
from ruslo.pipeline.source.subscription import Subscription, parse_subscription

OnDecodeError = Literal["fail", "drop", "column", "deadletter"]
PayloadFormat = Literal["binary", "string", "json", "avro"]
Scan = Literal["wire", "direct"]

PLAIN_COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
HEADERS_COLUMN: Final = "headers"
ERROR_COLUMN: Final = "decodeError"
DELIVERY_COUNT_COLUMN: Final = "delivery_count"

_FORMATS: Final = ("binary", "string", "json", "avro")
_BYTES_PER_TASK: Final = 128 * 1024 * 1024
"""Spark's own default for tasks that read files; smaller tasks spend too much time starting."""
_FETCH_BYTES: Final = 8 * 1024 * 1024
_ENDING: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")

KNOWN: Final = (
    *subscription.NAMES,
    *limits.OPTIONS,
    *share_options.NAMES,
    *_ENDING,
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "failOnDataLoss",
    "includeHeaders",
    "columns",
    "isolation",
    "scan",
    "keyFormat",
    "keySchema",
    "valueFormat",
    "valueSchema",
    "onDecodeError",
    "deadLetterTopic",
    "stagingPath",
    "sinkName",
    "minPartitions",
    "maxRecordsPerPartition",
    "bytesPerTask",
    "pushFilters",
    "group.id",
    "groupIdPrefix",
    # Options of Spark's connector; the client's own timeouts and retries replace them.
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)


@dataclass(frozen=True, slots=True)
class Payload:
    """The format of the bytes of keys or values."""

    format: PayloadFormat = "binary"
    schema: str | None = None


_BINARY: Final = Payload()


@dataclass(frozen=True, slots=True)
class SourceOptions:
    client: ClientProperties
    subscription: Subscription
    starting: Positions
    ending: Positions
    fail_on_data_loss: bool = True
    limits: TriggerLimits = NO_LIMITS
    read_committed: bool = True
    scan: Scan = "wire"
    columns: tuple[str, ...] = PLAIN_COLUMNS
    """The columns of a row, in order."""
    key: Payload = _BINARY
    value: Payload = _BINARY
    on_decode_error: OnDecodeError = "fail"
    dead_letter_topic: str | None = None
    dead_letter_staging: StagingTarget | None = None
    min_partitions: int = 0
    max_records_per_partition: int | None = None
    bytes_per_task: int = _BYTES_PER_TASK
    fetch_bytes: int = _FETCH_BYTES
    push_filters: bool = False
    group_id: str | None = None
    share: ShareOptions | None = None
    """The share group that the query is a member of."""

    @classmethod
    def parse(cls, options: Mapping[str, str], *, streaming: bool | None) -> SourceOptions:
        """With ``streaming`` None the positions are not checked: only the columns are needed.

        Raises ConfigError, which names the option and the fix.
        """
        values = OptionValues(options)
        values.refuse_unknown(KNOWN, 'format("ruslo")')
        properties = values.client_properties()
        starting = parse_starting(values, LATEST if streaming else EARLIEST)
        ending = parse_ending(values)
        if streaming is not None:
            _check_positions(values, starting, ending, streaming)
        key, value = _payload(values, "key"), _payload(values, "value")
        on_decode_error = cast(
            "OnDecodeError", values.choice("onDecodeError", ("fail", "drop", "column", "deadletter"), "fail")
        )
        dead_letters = on_decode_error == "deadletter"
        subscribed = parse_subscription(values)
        share = parse_share(values, subscribed, streaming=streaming)
        return cls(
            parse_client_properties(properties),
            subscribed,
            starting,
            ending,
            values.flag("failOnDataLoss", True),
            parse_limits(values),
            # A share group acquires only records that its consumers may see.
            share is None and _reads_committed(values, properties),
            cast("Scan", values.choice("scan", ("wire", "direct"), "wire")),
            _columns(values, on_decode_error, counts_deliveries=share is not None),
            key,
            value,
            on_decode_error,
            source_topic(values, enabled=dead_letters),
            source_staging(values, enabled=dead_letters),
            values.number("minPartitions", 0),
            values.optional_number("maxRecordsPerPartition"),
            values.size_bytes("bytesPerTask", None) or _BYTES_PER_TASK,
            int(properties.get("max.partition.fetch.bytes", _FETCH_BYTES)),
            values.flag("pushFilters", False),
            values.text("group.id") or properties.get("group.id"),
            share,
        )


def _check_positions(values: OptionValues, starting: Positions, ending: Positions, streaming: bool) -> None:
    if streaming:
        given = [name for name in _ENDING if name in values]
        if given:
            raise ConfigError(f"{given[0]} is for batch queries: a streaming query has no end; remove it")
    else:
        refuse(starting, "latest", "in a batch query: there would be nothing to read")
        refuse(ending, "earliest", "in a batch query: there would be nothing to read")


def _reads_committed(values: OptionValues, properties: Mapping[str, str]) -> bool:
    allowed = ("read_committed", "read_uncommitted")
    default = properties.get("isolation.level", allowed[0])
    if default not in allowed:
        raise ConfigError(f"kafka.isolation.level={default}: use {' or '.join(allowed)}")
    return values.choice("isolation", allowed, default) == allowed[0]


def _columns(
    values: OptionValues, on_decode_error: OnDecodeError, *, counts_deliveries: bool
) -> tuple[str, ...]:
    available = [*PLAIN_COLUMNS]
    if counts_deliveries:
        available.append(DELIVERY_COUNT_COLUMN)
    if values.flag("includeHeaders", False):
        available.append(HEADERS_COLUMN)
    if on_decode_error == "column":
        available.append(ERROR_COLUMN)
    wanted = values.names("columns")
    if wanted is None:
        return tuple(available)
    by_name = {name.lower(): name for name in (*available, HEADERS_COLUMN)}
    chosen: list[str] = []
    for name in wanted:
        known = by_name.get(name.lower())
        if known is None:
            raise ConfigError(f"columns: unknown column {name!r}; use {', '.join(by_name.values())}")
        if known in chosen:
            raise ConfigError(f"columns: {known} is named twice")
        chosen.append(known)
    return tuple(chosen)


def _payload(values: OptionValues, part: Literal["key", "value"]) -> Payload:
    kind = cast("PayloadFormat", values.choice(f"{part}Format", _FORMATS, "binary"))
    schema = values.text(f"{part}Schema")
    if kind in ("json", "avro") and schema is None:
        example = "'id BIGINT, name STRING'" if kind == "json" else "the schema as Avro's JSON"
        raise ConfigError(f"{part}Format={kind} needs a schema: set {part}Schema to {example}")
    if kind in ("binary", "string") and schema is not None:
        raise ConfigError(f"{part}Schema is for {part}Format json or avro: {kind} has no schema; remove it")
    return Payload(kind, schema)
