"""Decodes keys and values of rows, and applies onDecodeError to the records that cannot be decoded."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from ruslo.model.errors import RusloError
from ruslo.model.topics import TopicPartition
from ruslo.pipeline.dead_letters.writers import new_dead_letter_writer
from ruslo.pipeline.decode import columns
from ruslo.pipeline.decode.payload import PayloadDecoder, StringDecoder
from ruslo.pipeline.decode.rows import Rows
from ruslo.pipeline.source.options import ERROR_COLUMN, Payload, SourceOptions
from ruslo.pipeline.source.record_batches import RecordBatches
from ruslo.records.record import Record
from ruslo.runs.dead_letters import origin_headers

_log = logging.getLogger(__name__)
_PARTS: Final = {"key": columns.key_column, "value": columns.value_column}


class DecodeFailed(RusloError):
    """A record does not have its keyFormat or valueFormat, and onDecodeError is fail."""


class PayloadStage:
    """Used by one task. ``close`` logs how many records were dropped or became dead letters."""

    def __init__(self, options: SourceOptions, schema: pa.Schema) -> None:
        self._batches = RecordBatches(schema)
        self._policy = options.on_decode_error
        self._decoders = {
            part: decoder
            for part, payload in (("key", options.key), ("value", options.value))
            if part in schema.names and (decoder := _new_decoder(payload, schema.field(part).type))
        }
        self._dead_letters = (
            new_dead_letter_writer(options.client, options.dead_letter_topic, options.dead_letter_staging)
            if options.dead_letter_topic is not None and self._decoders
            else None
        )
        self._undecodable: dict[TopicPartition, int] = {}
        self._example = ""

    def batch(self, partition: TopicPartition, rows: Rows, first: int, last: int) -> pa.RecordBatch:
        """Rows first..last, without dropped records and dead letters."""
        given: dict[str, pa.Array] = {}
        errors: dict[int, str] = {}
        for part, decoder in self._decoders.items():
            decoded = decoder.decode(_PARTS[part](rows, first, last))
            given[part] = decoded.column
            for row, reason in decoded.errors.items():
                errors.setdefault(row, f"{part}: {reason}")
        if self._policy == "column":
            given[ERROR_COLUMN] = self._error_column(rows, first, last, errors)
        batch = self._batches.build(partition, rows, first, last, given)
        return batch if not errors else self._handle(partition, rows, first, batch, errors)

    def _handle(
        self,
        partition: TopicPartition,
        rows: Rows,
        first: int,
        batch: pa.RecordBatch,
        errors: Mapping[int, str],
    ) -> pa.RecordBatch:
        if self._policy == "column":
            return batch
        row, reason = min(errors.items())
        if self._policy == "fail":
            raise DecodeFailed(
                f"{partition} offset {int(rows.offsets[first + row])} cannot be decoded: {reason}. Set "
                f"onDecodeError to drop, column or deadletter to continue without such records"
            )
        if self._dead_letters is not None:
            self._dead_letters.write(
                [_dead_letter(partition, rows, first + row, reason) for row, reason in sorted(errors.items())]
            )
        self._undecodable[partition] = self._undecodable.get(partition, 0) + len(errors)
        self._example = self._example or f"{partition} offset {int(rows.offsets[first + row])}, {reason}"
        kept = np.ones(batch.num_rows, dtype=np.bool_)
        kept[list(errors)] = False
        return batch.filter(pa.array(kept))

    def _error_column(self, rows: Rows, first: int, last: int, errors: Mapping[int, str]) -> pa.Array:
        kind = self._batches.schema.field(ERROR_COLUMN).type
        found: list[dict[str, object] | None] = [None] * (last - first)
        for row, reason in errors.items():
            found[row] = {"reason": reason, "key": rows.key(first + row), "value": rows.value(first + row)}
        return pa.array(found, kind)

    def close(self) -> None:
        if self._dead_letters is not None:
            self._dead_letters.close()
        if self._undecodable:
            where = "dropped" if self._dead_letters is None else "sent to the dead-letter topic"
            counts = ", ".join(f"{partition}: {count}" for partition, count in self._undecodable.items())
            _log.warning(
                "%d records could not be decoded and were %s (%s); the first: %s",
                sum(self._undecodable.values()),
                where,
                counts,
                self._example,
            )


def _dead_letter(partition: TopicPartition, rows: Rows, row: int, reason: str) -> Record:
    headers = (*rows.headers(row), *origin_headers(partition, int(rows.offsets[row]), reason))
    return Record(0, int(rows.timestamps[row]), rows.key(row), rows.value(row), headers)


def _new_decoder(payload: Payload, kind: pa.DataType) -> PayloadDecoder | None:
    if payload.format == "binary":
        return None
    if payload.format == "string":
        return StringDecoder()
    assert payload.schema is not None, "options were parsed"
    if payload.format == "json":
        from ruslo.pipeline.decode.json_payload import JsonDecoder

        return JsonDecoder(kind)
    from ruslo.pipeline.decode.avro_payload import AvroDecoder

    return AvroDecoder(payload.schema, kind)
