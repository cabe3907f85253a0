"""What became of the requests of each API: how many, how long, and which errors were answered."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator
from functools import cache
from time import perf_counter_ns
from typing import Any

from ruslo.broker.counters.durations import Durations
from ruslo.protocol.message import Message, Struct

now_ns = perf_counter_ns
"""When a request begins; ``ApiStats.answered`` wants it back."""


class ApiStats:
    __slots__ = ("durations", "errors")

    def __init__(self) -> None:
        self.durations = Durations()
        """From the whole request to the whole answer, waiting for replicas or for data included."""
        self.errors: dict[int, int] = {}
        """How often each error code was answered; a response may carry many."""

    def answered(self, begun_ns: int) -> None:
        self.durations.observe(perf_counter_ns() - begun_ns)

    def failed(self, code: int) -> None:
        self.errors[code] = self.errors.get(code, 0) + 1

    def count_errors(self, response: Message) -> None:
        for code in error_codes_in(response):
            self.failed(code)


class RequestStats:
    """Of all APIs that this node serves, on whichever listener."""

    def __init__(self) -> None:
        self.by_api: dict[str, ApiStats] = {}

    def of(self, api_name: str) -> ApiStats:
        found = self.by_api.get(api_name)
        if found is None:
            found = self.by_api[api_name] = ApiStats()
        return found


def error_codes_in(response: Message) -> Iterator[int]:
    """Every error code of a response that is not NONE, wherever in it responses of that type have one."""
    return _finder(type(response))(response)


_Find = Callable[[Any], Iterator[int]]


@cache
def _finder(struct: type[Struct]) -> _Find:
    """Made once for each type: which fields to look at, so that a long answer costs a walk of those only."""
    has_code = "error_code" in struct.__slots__
    nested: list[tuple[str, _Find]] = []
    for name, hint in typing.get_type_hints(struct).items():
        part = next((each for each in typing.get_args(hint) if _may_have_codes(each)), None)
        if part is not None and name in struct.__slots__:
            nested.append((name, _finder(part)))

    def find(found: Any) -> Iterator[int]:
        if has_code and found.error_code:
            yield found.error_code
        for name, find_in in nested:
            for part in getattr(found, name) or ():
                yield from find_in(part)

    return find


@cache
def _may_have_codes(hint: object) -> bool:
    if not (isinstance(hint, type) and issubclass(hint, Struct)):
        return False
    if "error_code" in hint.__slots__:
        return True
    hints = typing.get_type_hints(hint).values()
    return any(_may_have_codes(each) for outer in hints for each in typing.get_args(outer))
