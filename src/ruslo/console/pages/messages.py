"""Records of a topic: a page of them, a single one, downloads, and a live tail."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ruslo.client.admin.admin import Admin
from ruslo.client.librdkafka.consumer import ConsumedRecord
from ruslo.client.views.position import AtStart, BeforeEnd, Position, parse_position
from ruslo.client.views.record_json import json_line
from ruslo.console.console import Console, console_of, form_of
from ruslo.console.events import event, stream
from ruslo.console.forms import Form, FormError
from ruslo.console.messages.avro import AvroError, AvroSchema
from ruslo.console.messages.decoding import FORMATS, Shown, one_line, show
from ruslo.console.messages.reading import PARTITIONS_MAX, Budget, Filter, Found, RecordReader
from ruslo.console.messages.tail import follow
from ruslo.model.errors import ErrorCode, KafkaError

_PER_PAGE = 50
_LINE_CHARS = 240
_KEY_CHARS = 60
_SEARCHED_KEY_CHARS = 200
_RECORD_CHARS = 256 * 1024
_HEADERS_MAX = 200
_DOWNLOAD_RECORDS_MAX = 10_000
_DOWNLOAD_CHUNK_RECORDS = 500
_DOWNLOAD_TIMEOUT_S = 60.0


class Row(NamedTuple):
    partition: int
    offset: int
    timestamp_ms: int
    key: Shown
    value: Shown
    headers: int


class Query(NamedTuple):
    """The query of the page's URL."""

    partition: int | None
    where: str
    """A position as users write it: start, end, 42, -10, 2h, 2026-03-01T10:00Z."""
    position: Position | None
    """None reads backwards from the end."""
    wanted: Filter
    key: str
    value: str
    positions: Mapping[int, int]
    """Where to continue, by partition, unless this is the first page."""

    @classmethod
    def of(cls, form: Form) -> Query:
        where = form.text("from")
        try:
            position = None if where in ("", "end", "latest", "newest") else parse_position(where)
        except ValueError as error:
            raise FormError(str(error)) from None
        key, value = form.text("key"), form.text("value")
        return cls(
            form.number("partition", "Partition", least=0),
            where,
            position,
            Filter(key.encode(), value.encode()),
            key,
            value,
            _positions(form.text("at")),
        )


async def messages(request: Request) -> Response:
    console, topic = console_of(request), _topic(request)
    form_error = None
    try:
        query = Query.of(Form.of_query(request.query_params))
    except FormError as error:
        query, form_error = Query.of(Form({})), str(error)
    numbers = await _numbers(console.admin, topic, query.partition)
    chosen = numbers if query.partition is None else [query.partition]
    reader = RecordReader(console.admin)
    ranges = await reader.ranges(topic, chosen[:PARTITIONS_MAX])
    found = await _search(reader, topic, query, ranges)
    next_page = ",".join(f"{number}:{offset}" for number, offset in sorted(found.positions.items()))
    return console.page(
        request,
        "messages.html",
        topic=topic,
        query=query,
        partitions=numbers,
        left_out=len(chosen) - PARTITIONS_MAX if len(chosen) > PARTITIONS_MAX else 0,
        rows=[_row(record) for record in found.records],
        found=found,
        next_page=next_page,
        is_first_page=not query.positions,
        form_error=form_error,
    )


async def _search(
    reader: RecordReader, topic: str, query: Query, ranges: Mapping[int, tuple[int, int]]
) -> Found:
    positions = {number: offset for number, offset in query.positions.items() if number in ranges}
    if query.position is None:
        positions = positions or {number: end for number, (_, end) in ranges.items()}
        return await reader.backwards(topic, positions, ranges, query.wanted, _PER_PAGE)
    positions = positions or await reader.offsets_of(topic, query.position, ranges)
    return await reader.forwards(topic, positions, ranges, query.wanted, _PER_PAGE)


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
        key=show(record.key, "auto" if wanted == "avro" else wanted, _RECORD_CHARS),
        value=show(record.value, wanted, _RECORD_CHARS, schema),
        headers=[(name, one_line(data, _LINE_CHARS * 4)) for name, data in record.headers[:_HEADERS_MAX]],
        headers_left=max(0, len(record.headers) - _HEADERS_MAX),
        same_key=_searchable(record.key),
        schema="" if schema is None else schema.text,
        form_error=None,
    )


def _searchable(key: bytes | None) -> str | None:
    """The key as text for a search, if it can be typed."""
    try:
        text = (key or b"").decode()
    except UnicodeDecodeError:
        return None
    return text if text and text == text.strip() and len(text) <= _SEARCHED_KEY_CHARS else None


async def download(request: Request) -> Response:
    """The raw bytes, as an attachment so that browsers do not render them."""
    record = await _record(request)
    part = Form.of_query(request.query_params).choice("part", ("value", "key"), "value")
    data = record.value if part == "value" else record.key
    name = f"{record.topic}-{record.partition}-{record.offset}.{part}"
    return Response(data or b"", media_type="application/octet-stream", headers=_attachment(name))


async def download_many(request: Request) -> Response:
    """Lines of JSON in the format of ``ruslo consume -o json`` and ``ruslo produce --json``."""
    console, topic = console_of(request), _topic(request)
    query = Query.of(Form.of_query(request.query_params))
    numbers = await _numbers(console.admin, topic, query.partition)
    chosen = (numbers if query.partition is None else [query.partition])[:PARTITIONS_MAX]
    reader = RecordReader(console.admin)
    ranges = await reader.ranges(topic, chosen)
    start = query.position
    if start is None:
        start = BeforeEnd(_DOWNLOAD_CHUNK_RECORDS) if query.wanted == Filter() else AtStart()
    positions = await reader.offsets_of(topic, start, ranges)
    return StreamingResponse(
        _lines(reader, topic, positions, ranges, query.wanted),
        media_type="application/x-ndjson",
        headers=_attachment(f"{topic}.jsonl"),
    )


async def _lines(
    reader: RecordReader,
    topic: str,
    positions: Mapping[int, int],
    ranges: Mapping[int, tuple[int, int]],
    wanted: Filter,
) -> AsyncIterator[bytes]:
    left, budget = _DOWNLOAD_RECORDS_MAX, Budget(_DOWNLOAD_TIMEOUT_S)
    while positions and left > 0 and not budget.is_exhausted():
        found = await reader.forwards(
            topic, positions, ranges, wanted, min(_DOWNLOAD_CHUNK_RECORDS, left), budget
        )
        for record in found.records:
            yield json_line(record)
        left -= len(found.records)
        if found.positions == positions:
            return
        positions = found.positions


async def tail(request: Request) -> Response:
    topic = _topic(request)
    console, query = console_of(request), Query.of(Form.of_query(request.query_params))
    return stream(_arriving(request, console, topic, query))


async def _arriving(request: Request, console: Console, topic: str, query: Query) -> AsyncIterator[str]:
    # Separate connections, so that other pages do not wait for this one.
    async with console.new_admin() as admin:
        numbers = await _numbers(admin, topic, query.partition)
        chosen = (numbers if query.partition is None else [query.partition])[:PARTITIONS_MAX]
        async for arrived in follow(admin, topic, chosen, query.wanted):
            if not arrived.records and not arrived.skipped:
                yield ": alive\n\n"
                continue
            rows = [_row(record) for record in reversed(arrived.records)]
            html = console.renderer.text(request, "_message_rows.html", rows=rows, topic=topic, is_new=True)
            yield event("rows", {"html": html, "skipped": arrived.skipped, "count": len(rows)})


async def set_schema(request: Request) -> Response:
    """Store a schema in the console's memory; the cluster does not change."""
    console, form, topic = console_of(request), form_of(request), _topic(request)
    text = form.raw("schema").strip()
    back = (
        form.text("back")
        if form.text("back").startswith(f"/topics/{topic}/")
        else f"/topics/{topic}/messages"
    )
    if not text:
        console.schemas.set(topic, None)
        return console.done(back, f"The Avro schema of {topic} was removed.")
    try:
        console.schemas.set(topic, AvroSchema(text))
    except AvroError as error:
        return console.done(back, str(error), good=False)
    return console.done(f"{back}?format=avro", f"Values of {topic} are decoded with the schema.")


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
            f"{topic}-{partition} has no record at offset {offset}: retention or compaction removed it, or "
            "it is a transaction marker",
        )
    return record


async def _numbers(admin: Admin, topic: str, wanted: int | None) -> list[int]:
    """The partitions with a leader; raises if the wanted one does not exist."""
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


def _positions(text: str) -> dict[int, int]:
    positions: dict[int, int] = {}
    for pair in text.split(",") if text else ():
        number, _, offset = pair.partition(":")
        if not number.isdecimal() or not offset.isdecimal():
            raise FormError(f"{text!r} is not a list of PARTITION:OFFSET.")
        positions[int(number)] = int(offset)
    return positions


def _attachment(name: str) -> dict[str, str]:
    return {"Content-Disposition": f'attachment; filename="{name}"'}


def _topic(request: Request) -> str:
    return str(request.path_params["topic"])
