"""Decodes keys and values of rows, and does with those that cannot be decoded what onDecodeError says."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from ruslo.model.errors import RusloError
from ruslo.model.topics import TopicPartition
from ruslo.pipeline.decode import columns
from ruslo.pipeline.decode.payload import PayloadDecoder, StringDecoder
from ruslo.pipeline.decode.rows import Rows
from ruslo.pipeline.source.dead_letters import DeadLetter, new_dead_letters
from ruslo.pipeline.source.options import ERROR_COLUMN, Payload, SourceOptions
from ruslo.pipeline.source.record_batches import RecordBatches

_log = logging.getLogger(__name__)
_PARTS: Final = {"key": columns.key_column, "value": columns.value_column}


class DecodeFailed(RusloError):
    """A record that is not what keyFormat or valueFormat say, under onDecodeError=fail."""


class PayloadStage:
    """One task's; ``close`` sends what is left and tells how many records were put aside."""

    def __init__(self, options: SourceOptions, schema: pa.Schema) -> None:
        self._batches = RecordBatches(schema)
        self._policy = options.on_decode_error
        self._decoders = {
            part: decoder
            for part, payload in (("key", options.key), ("value", options.value))
            if part in schema.names and (decoder := _new_decoder(payload, schema.field(part).type))
        }
        self._dead_letters = (
            new_dead_letters(options) if options.dead_letter_topic and self._decoders else None
        )
        self._put_aside: dict[TopicPartition, int] = {}
        self._example = ""

    def batch(self, partition: TopicPartition, rows: Rows, first: int, last: int) -> pa.RecordBatch:
        """Rows first..last, without those that were put aside."""
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
                f"onDecodeError to drop, column or deadletter to go on without such records"
            )
        if self._dead_letters is not None:
            self._dead_letters.send(
                [
                    DeadLetter.of(partition, rows, first + row, reason)
                    for row, reason in sorted(errors.items())
                ]
            )
        self._put_aside[partition] = self._put_aside.get(partition, 0) + len(errors)
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
        if self._put_aside:
            where = "dropped" if self._dead_letters is None else "sent to the dead-letter topic"
            counts = ", ".join(f"{partition}: {count}" for partition, count in self._put_aside.items())
            _log.warning(
                "%d records could not be decoded and were %s (%s); the first: %s",
                sum(self._put_aside.values()),
                where,
                counts,
                self._example,
            )


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
