"""The records of a topic: a page of them, one of them, as files, and as they come."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ruslo.client.admin.admin import Admin
from ruslo.client.librdkafka.consumer import ConsumedRecord
from ruslo.client.views.position import AtStart, BeforeEnd, Position, parse_position
from ruslo.client.views.record_json import json_line
from ruslo.console.console import API_TIMEOUT_MS, CONNECTIONS, Console, console_of, form_of
from ruslo.console.events import event, stream
from ruslo.console.forms import Form, FormMistake
from ruslo.console.messages.avro import AvroMistake, AvroSchema
from ruslo.console.messages.decoding import FORMATS, Shown, one_line, show
from ruslo.console.messages.reading import PARTITIONS_MAX, Budget, Filter, Found, RecordReader
from ruslo.console.messages.tail import follow
from ruslo.model.errors import ErrorCode, KafkaError

_PER_PAGE = 50
_LINE_CHARS = 240
_KEY_CHARS = 60
_SEARCHED_KEY_CHARS = 200
_WHOLE_CHARS = 256 * 1024
_HEADERS_MAX = 200
_DOWNLOAD_RECORDS = 10_000
_DOWNLOAD_STEP = 500
_DOWNLOAD_S = 60.0


class Row(NamedTuple):
    partition: int
    offset: int
    timestamp_ms: int
    key: Shown
    value: Shown
    headers: int


class Asked(NamedTuple):
    """What the address of the page says."""

    partition: int | None
    where: str
    """As people write it: start, end, 42, -10, 2h, 2026-03-01T10:00Z."""
    position: Position | None
    """None reads back from the end."""
    wanted: Filter
    key: str
    value: str
    places: Mapping[int, int]
    """Where to go on, by partition, when this is not the first page."""

    @classmethod
    def of(cls, query: Form) -> Asked:
        where = query.text("from")
        try:
            position = None if where in ("", "end", "latest", "newest") else parse_position(where)
        except ValueError as error:
            raise FormMistake(str(error)) from None
        key, value = query.text("key"), query.text("value")
        return cls(
            query.number("partition", "Partition", least=0),
            where,
            position,
            Filter(key.encode(), value.encode()),
            key,
            value,
            _places(query.text("at")),
        )


async def messages(request: Request) -> Response:
    console, query, topic = console_of(request), Form.of_query(request.query_params), _topic(request)
    mistake = None
    try:
        asked = Asked.of(query)
    except FormMistake as error:
        asked, mistake = Asked.of(Form({})), str(error)
    numbers = await _numbers(console.admin, topic, asked.partition)
    chosen = numbers if asked.partition is None else [asked.partition]
    reader = RecordReader(console.admin)
    ranges = await reader.ranges(topic, chosen[:PARTITIONS_MAX])
    found = await _search(reader, topic, asked, ranges)
    going_on = ",".join(f"{number}:{place}" for number, place in sorted(found.places.items()))
    return console.page(
        request,
        "messages.html",
        topic=topic,
        asked=asked,
        partitions=numbers,
        left_out=len(chosen) - PARTITIONS_MAX if len(chosen) > PARTITIONS_MAX else 0,
        rows=[_row(record) for record in found.records],
        found=found,
        going_on=going_on,
        at_first_page=not asked.places,
        mistake=mistake,
    )


async def _search(
    reader: RecordReader, topic: str, asked: Asked, ranges: Mapping[int, tuple[int, int]]
) -> Found:
    places = {number: place for number, place in asked.places.items() if number in ranges}
    if asked.position is None:
        places = places or {number: end for number, (_, end) in ranges.items()}
        return await reader.backwards(topic, places, ranges, asked.wanted, _PER_PAGE)
    places = places or await reader.places_of(topic, asked.position, ranges)
    return await reader.forwards(topic, places, ranges, asked.wanted, _PER_PAGE)


async def message(request: Request) -> Response:
    console, query, topic = console_of(request), Form.of_query(request.query_params), _topic(request)
    record = await _record(request)
    wanted = query.choice("format", FORMATS, "auto")
    schema = console.schemas.of(topic)
    return console.page(
        request,
        "message.html",
        topic=topic,
        record=record,
        wanted=wanted,
        formats=FORMATS,
        key=show(record.key, "auto" if wanted == "avro" else wanted, _WHOLE_CHARS),
        value=show(record.value, wanted, _WHOLE_CHARS, schema),
        headers=[(name, one_line(data, _LINE_CHARS * 4)) for name, data in record.headers[:_HEADERS_MAX]],
        headers_left=max(0, len(record.headers) - _HEADERS_MAX),
        same_key=_searchable(record.key),
        schema="" if schema is None else schema.text,
        mistake=None,
    )


def _searchable(key: bytes | None) -> str | None:
    """The key as one would type it to look for it, if one can."""
    try:
        text = (key or b"").decode()
    except UnicodeDecodeError:
        return None
    return text if text and text == text.strip() and len(text) <= _SEARCHED_KEY_CHARS else None


async def download(request: Request) -> Response:
    """The bytes as they are: a browser must never show them as a page of ours."""
    record = await _record(request)
    part = Form.of_query(request.query_params).choice("part", ("value", "key"), "value")
    data = record.value if part == "value" else record.key
    name = f"{record.topic}-{record.partition}-{record.offset}.{part}"
    return Response(data or b"", media_type="application/octet-stream", headers=_attachment(name))


async def download_many(request: Request) -> Response:
    """Lines of JSON, as ``ruslo consume -o json`` prints and ``ruslo produce --json`` takes them."""
    console, topic = console_of(request), _topic(request)
    asked = Asked.of(Form.of_query(request.query_params))
    numbers = await _numbers(console.admin, topic, asked.partition)
    chosen = (numbers if asked.partition is None else [asked.partition])[:PARTITIONS_MAX]
    reader = RecordReader(console.admin)
    ranges = await reader.ranges(topic, chosen)
    start = asked.position
    if start is None:
        start = BeforeEnd(_DOWNLOAD_STEP) if asked.wanted == Filter() else AtStart()
    places = await reader.places_of(topic, start, ranges)
    return StreamingResponse(
        _lines(reader, topic, places, ranges, asked.wanted),
        media_type="application/x-ndjson",
        headers=_attachment(f"{topic}.jsonl"),
    )


async def _lines(
    reader: RecordReader,
    topic: str,
    places: Mapping[int, int],
    ranges: Mapping[int, tuple[int, int]],
    wanted: Filter,
) -> AsyncIterator[bytes]:
    left, budget = _DOWNLOAD_RECORDS, Budget(_DOWNLOAD_S)
    while places and left > 0 and not budget.is_spent():
        found = await reader.forwards(topic, places, ranges, wanted, min(_DOWNLOAD_STEP, left), budget)
        for record in found.records:
            yield json_line(record)
        left -= len(found.records)
        if found.places == places:
            return
        places = found.places


async def tail(request: Request) -> Response:
    topic = _topic(request)
    console, asked = console_of(request), Asked.of(Form.of_query(request.query_params))
    return stream(_arriving(request, console, topic, asked))


async def _arriving(request: Request, console: Console, topic: str, asked: Asked) -> AsyncIterator[str]:
    # Connections of its own: what waits here must not hold up the pages of others.
    async with Admin(
        console.settings.bootstrap, settings=CONNECTIONS, api_timeout_ms=API_TIMEOUT_MS
    ) as admin:
        numbers = await _numbers(admin, topic, asked.partition)
        chosen = (numbers if asked.partition is None else [asked.partition])[:PARTITIONS_MAX]
        async for arrived in follow(admin, topic, chosen, asked.wanted):
            if not arrived.records and not arrived.skipped:
                yield ": alive\n\n"
                continue
            rows = [_row(record) for record in reversed(arrived.records)]
            html = console.renderer.text(request, "_message_rows.html", rows=rows, topic=topic, is_new=True)
            yield event("rows", {"html": html, "skipped": arrived.skipped, "count": len(rows)})


async def set_schema(request: Request) -> Response:
    """Keeps a schema in this console's memory; nothing in the cluster changes."""
    console, form, topic = console_of(request), form_of(request), _topic(request)
    text = form.raw("schema").strip()
    back = (
        form.text("back")
        if form.text("back").startswith(f"/topics/{topic}/")
        else f"/topics/{topic}/messages"
    )
    if not text:
        console.schemas.set(topic, None)
        return console.done(back, f"The Avro schema of {topic} was forgotten.")
    try:
        console.schemas.set(topic, AvroSchema(text))
    except AvroMistake as mistake:
        return console.done(back, str(mistake), good=False)
    return console.done(f"{back}?format=avro", f"Values of {topic} are decoded with this schema.")


async def _record(request: Request) -> ConsumedRecord:
    topic, partition, offset = (
        _topic(request),
        request.path_params["partition"],
        request.path_params["offset"],
    )
    console = console_of(request)
    await _numbers(console.admin, topic, partition)
    record = await RecordReader(console.admin).one(topic, partition, offset)
    if record is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"there is no record at offset {offset} of {topic}-{partition}: retention or compaction took it, "
            "or a marker of a transaction has its place",
        )
    return record


async def _numbers(admin: Admin, topic: str, wanted: int | None) -> list[int]:
    """The partitions that can be read; raises when the one that is wanted does not exist."""
    info = await admin.topics.describe(topic)
    if wanted is not None and info.partition(wanted) is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic!r} has no partition {wanted}")
    return [each.partition for each in info.partitions if each.leader_id >= 0 or each.partition == wanted]


def _row(record: ConsumedRecord) -> Row:
    return Row(
        record.partition,
        record.offset,
        record.timestamp_ms,
        one_line(record.key, _KEY_CHARS),
        one_line(record.value, _LINE_CHARS),
        len(record.headers),
    )


def _places(text: str) -> dict[int, int]:
    places: dict[int, int] = {}
    for pair in text.split(",") if text else ():
        number, _, place = pair.partition(":")
        if not number.isdecimal() or not place.isdecimal():
            raise FormMistake(f"{text!r} is no place to go on from.")
        places[int(number)] = int(place)
    return places


def _attachment(name: str) -> dict[str, str]:
    return {"Content-Disposition": f'attachment; filename="{name}"'}


def _topic(request: Request) -> str:
    return str(request.path_params["topic"])
