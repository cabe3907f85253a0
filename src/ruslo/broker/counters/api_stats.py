"""Request counters of each API: number, duration, and the error codes of the responses."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from ruslo.broker.counters.durations import Durations
from ruslo.model.clock import Clock
from ruslo.protocol.message import Message, Struct


class ApiStats:
    __slots__ = ("durations", "errors", "now_ns")

    def __init__(self, clock: Clock) -> None:
        self.now_ns = clock.monotonic_ns
        """The time at which a request begins, to be passed to ``record_response``."""
        self.durations = Durations()
        """Times from the complete request to the complete response, including waits for replicas or data."""
        self.errors: dict[int, int] = {}
        """How many responses carried each error code; one response may carry many."""

    def record_response(self, begun_ns: int) -> None:
        self.durations.observe(self.now_ns() - begun_ns)

    def record_error(self, code: int) -> None:
        self.errors[code] = self.errors.get(code, 0) + 1

    def record_errors(self, response: Message) -> None:
        for code in error_codes_in(response):
            self.record_error(code)


class RequestStats:
    """The counters of all APIs that this node serves, on all listeners."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.by_api: dict[str, ApiStats] = {}

    def of(self, api_name: str) -> ApiStats:
        found = self.by_api.get(api_name)
        if found is None:
            found = self.by_api[api_name] = ApiStats(self._clock)
        return found


def error_codes_in(response: Message) -> Iterator[int]:
    """Return every error code of a response that is not NONE, at any depth."""
    return _finder(type(response))(response)


_Find = Callable[[Any], Iterator[int]]


@cache
def _finder(struct: type[Struct]) -> _Find:
    """Find the fields that may hold error codes once for each type; a response is searched in those only."""
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
