"""Requests that are as expensive as the limits of their API allow, built from the generated messages.

``python -m tests.support.protocol.expensive_requests [SEED [PER_API [API]]]`` sends them to a node in this
process and prints the processor time that the event loop spent on the most expensive ones without a break.
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
import time
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ruslo.broker.dispatch.api_table import HANDLERS
from ruslo.broker.requests.bounds import INLINE_BYTES, bound_of
from ruslo.model.errors import ProtocolError
from ruslo.protocol.apis import API_BY_NAME
from ruslo.protocol.message import Message, Struct

NAMES = ("", "t", "unknown", "distinct")
"""The strings of a request: empty, an existing topic, one unknown name, or many."""
SHAPES = ("wide", "deep", "square")
"""Many elements with few children, one element with many children, or as many of both."""
SIZES = ("inline", "most")
"""The largest request that is decoded on the event loop, or the largest that is allowed."""


class Expensive(NamedTuple):
    api: str
    version: int
    field: str
    names: str
    shape: str
    size: str
    body: bytes

    def __str__(self) -> str:
        return f"{self.api} v{self.version} {self.field} {self.shape} {self.names or 'empty'} {self.size}"


def expensive_requests(seed: int, per_api: int | None = None) -> Iterator[Expensive]:
    """Requests of every API that clients may send; ``per_api`` random ones of each, or all."""
    rng = random.Random(seed)
    for name in sorted(HANDLERS):
        choices = list(_choices(name))
        if per_api is not None:
            choices = rng.sample(choices, min(per_api, len(choices)))
        for version, field, names, shape, size in choices:
            body = _largest(name, version, field, names, shape, size)
            if body is not None:
                yield Expensive(name, version, field, names, shape, size, body)


def _choices(name: str) -> Iterator[tuple[int, str, str, str, str]]:
    api = API_BY_NAME[name]
    for field in _arrays(api.request):
        for version in {api.min_version, (api.min_version + api.max_version) // 2, api.max_version}:
            for names in NAMES:
                for shape in SHAPES:
                    for size in SIZES:
                        yield version, field, names, shape, size


def _arrays(struct: type[Struct]) -> list[str]:
    hints = typing.get_type_hints(struct)
    return [each for each in struct.__slots__ if _element_of(hints[each]) is not None]


def _element_of(hint: Any) -> type | None:
    """The type of the elements of an array; None if the field is not an array."""
    if typing.get_origin(hint) is list:
        return typing.cast(type, typing.get_args(hint)[0])
    for each in typing.get_args(hint):
        if typing.get_origin(each) is list:
            return typing.cast(type, typing.get_args(each)[0])
    return None


def _largest(name: str, version: int, field: str, names: str, shape: str, size: str) -> bytes | None:
    bound = bound_of(name)
    count, limit = bound.max_elements, bound.max_bytes
    if size == "inline":
        limit = INLINE_BYTES
    for _ in range(12):
        body = _encode(name, version, field, names, shape, count)
        if body is None:
            return None
        if len(body) <= limit:
            return body
        count = min(int(count * limit / len(body)), count - 1)
    return None


def _encode(name: str, version: int, field: str, names: str, shape: str, count: int) -> bytes | None:
    request_type = API_BY_NAME[name].request
    for with_inner in (True, False):
        request: Any = request_type()
        element = _element_of(typing.get_type_hints(request_type)[field])
        assert element is not None
        setattr(request, field, _elements(element, count, names, shape if with_inner else "flat"))
        hints = typing.get_type_hints(request_type)
        others: tuple[str, ...] = request_type.__slots__
        for other in others:
            if getattr(request, other) == "" and hints[other] is str:
                setattr(request, other, "t")
                if _bytes(request, version) is None:
                    setattr(request, other, "")
        if (body := _bytes(request, version)) is not None:
            return body
    return None


def _bytes(request: Message, version: int) -> bytes | None:
    try:
        return request.to_bytes(version)
    except ProtocolError:
        return None


def _elements(element: type, count: int, names: str, shape: str) -> list[Any]:
    if element is str:
        return [_name(names, at) for at in range(count)]
    if not issubclass(element, Struct):
        return [bytes(16) if element is bytes else at for at in range(count)]
    inner = _arrays(element)
    hints = typing.get_type_hints(element)
    outer_count, inner_count = count, 0
    if inner and shape != "flat":
        if shape == "deep":
            outer_count, inner_count = 1, count - 1
        elif shape == "square":
            outer_count = inner_count = int(count**0.5) - 1
        else:
            outer_count, inner_count = count // 2, 1
    elements: list[Any] = []
    for at in range(outer_count):
        created = element()
        for each in element.__slots__:
            if hints[each] is str or hints[each] == str | None:
                setattr(created, each, _name(names, at))
        if inner_count:
            inner_element = _element_of(hints[inner[0]])
            assert inner_element is not None
            setattr(created, inner[0], _elements(inner_element, inner_count, names, "flat"))
        elements.append(created)
    return elements


def _name(names: str, at: int) -> str:
    return f"n{at:x}" if names == "distinct" else names


async def _measure(seed: int, per_api: int | None, only: str | None) -> None:
    from tests.support.brokers.live_node import live_node
    from tests.support.clients.raw_client import connected, frame

    with tempfile.TemporaryDirectory() as directory:
        async with live_node(Path(directory)) as node:
            await node.create("t", partitions=3)
            worst: list[tuple[float, str]] = []
            for each in expensive_requests(seed, per_api):
                if only is not None and each.api != only:
                    continue
                async with connected(node.bootstrap) as client:
                    head = bytearray()
                    api = API_BY_NAME[each.api]
                    head += api.key.to_bytes(2, "big") + each.version.to_bytes(2, "big")
                    head += bytes(4) + b"\xff\xff" + (b"\0" if each.version >= api.flexible_from else b"")
                    client.writer.write(frame(bytes(head) + each.body))
                    done = asyncio.ensure_future(client.reader.read(1))
                    longest, before = 0.0, time.thread_time()
                    while not done.done():
                        await asyncio.sleep(0)
                        now = time.thread_time()
                        longest, before = max(longest, now - before), now
                worst.append((longest, str(each)))
            for seconds, what in sorted(worst, reverse=True)[:40]:
                print(f"{seconds * 1000:8.1f} ms  {what}")


if __name__ == "__main__":
    argv = dict(enumerate(sys.argv))
    asyncio.run(_measure(int(argv.get(1, 1)), int(argv[2]) if 2 in argv else None, argv.get(3)))
