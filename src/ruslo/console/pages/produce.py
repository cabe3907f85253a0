"""Produces a single record."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from ruslo.client.librdkafka.producer import Producer, RecordMetadata
from ruslo.client.settings.setting import ClientConfigValue
from ruslo.console.confirmation import Preview, is_confirmed
from ruslo.console.console import FormResult, console_of, form_of
from ruslo.console.formats import size
from ruslo.console.forms import Form, FormError
from ruslo.console.settings import ConsoleSettings
from ruslo.model.secret import Secret

_TIMEOUT_MS = 10_000
_TOKEN_SOURCES = ("sasl.oauthbearer.", "sasl.jaas.")
"""Settings that say where the console itself gets tokens from."""
_RECORD_MAX_BYTES = 5 * 1024 * 1024
"""This exceeds the largest form, so only max.message.bytes of the topic limits a record."""


class _NewRecord(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    partition: int | None


async def produce(request: Request) -> Response:
    console, form, topic = console_of(request), form_of(request), str(request.path_params["topic"])
    info = await console.admin.topics.describe(topic)
    result = FormResult()
    if request.method == "POST":
        with result:
            record = _new_record(form, len(info.partitions))
            if is_confirmed(form):
                stored = await asyncio.to_thread(_send, console.settings, console.token, topic, record)
                return console.done(
                    f"/topics/{topic}/messages/{stored.partition}/{stored.offset}",
                    f"The record was stored in partition {stored.partition} at offset {stored.offset}.",
                )
            result.preview = _preview(form, topic, record)
    return console.form_page(
        request,
        "produce.html",
        result,
        topic=topic,
        partitions=[each.partition for each in info.partitions],
        form=form,
    )


def _new_record(form: Form, partitions: int) -> _NewRecord:
    value_format = form.choice("format", ("text", "json", "hex"), "text")
    key, value = form.raw("key"), form.raw("value")
    headers = []
    for line in form.raw("headers").splitlines():
        if line.strip():
            name, separator, content = line.partition("=")
            if not separator or not name.strip():
                raise FormError(f"Headers: {line!r} is not in the form name=value.")
            headers.append((name.strip(), content.encode()))
    return _NewRecord(
        None if form.flag("null_key") else key.encode(),
        None if form.flag("null_value") else _bytes(value, value_format),
        tuple(headers),
        form.number("partition", "Partition", least=0, most=partitions - 1),
    )


def _bytes(text: str, value_format: str) -> bytes:
    try:
        if value_format == "json":
            json.loads(text)
        elif value_format == "hex":
            return bytes.fromhex(text)
    except (ValueError, RecursionError) as error:
        raise FormError(f"Value: this is not valid {value_format.upper()} ({error}).") from None
    return text.encode()


def _preview(form: Form, topic: str, record: _NewRecord) -> Preview:
    return Preview(
        title=f"Produce a record to {topic}",
        facts=[
            ("Partition", "by key" if record.partition is None else record.partition),
            ("Key", "null" if record.key is None else size(len(record.key))),
            (
                "Value",
                "null, which deletes the key in a compacted topic"
                if record.value is None
                else size(len(record.value)),
            ),
            ("Headers", len(record.headers)),
        ],
        warning="All consumers of the topic receive the record. It cannot be changed or removed.",
        button="Produce the record",
        form=form,
    )


def _send(
    settings: ConsoleSettings, token: Callable[[], Secret] | None, topic: str, record: _NewRecord
) -> RecordMetadata:
    """Use librdkafka for its partitioner and retries; a producer per record is fast enough here."""
    config: dict[str, ClientConfigValue] = {
        **settings.security,
        "bootstrap.servers": settings.bootstrap,
        "client.id": "ruslo-console",
        "log_level": 2,
        "delivery.timeout.ms": _TIMEOUT_MS,
        "request.timeout.ms": _TIMEOUT_MS // 2,
        "max.block.ms": _TIMEOUT_MS,
        "linger.ms": 0,
        "max.request.size": _RECORD_MAX_BYTES,
    }
    if token is not None:
        config = {name: value for name, value in config.items() if not name.startswith(_TOKEN_SOURCES)}
        # The producer does not live long enough to need another token.
        config["oauth_cb"] = lambda _: (token().reveal(), time.time() + _TIMEOUT_MS / 1000)
    producer = Producer(config)
    try:
        return producer.send(
            topic, record.value, key=record.key, headers=record.headers, partition=record.partition
        ).result(_TIMEOUT_MS / 1000)
    finally:
        producer.close(1)
