"""Finds the coordinators of groups and transactional ids, and queries the coordinators of many at once."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from ruslo.client.wire.cluster import Cluster
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.net.channel import error_of
from ruslo.net.errors import ConnectionLost
from ruslo.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ruslo.protocol.messages.find_coordinator_response import FindCoordinatorResponse

T = TypeVar("T")

_KEY_TYPE_VERSION = 1
"""The first version of FindCoordinator for keys other than groups (KIP-98)."""
_BATCH_VERSION = 4
"""The first version of FindCoordinator for several keys (KIP-699)."""
_KEYS_PER_REQUEST = 500


class Coordinated(enum.IntEnum):
    """The key types of FindCoordinator."""

    GROUP = 0
    TRANSACTION = 1


class Coordinators:
    """A cache of coordinators. A retriable error of a key evicts its entry."""

    def __init__(self, cluster: Cluster, kind: Coordinated = Coordinated.GROUP) -> None:
        self._cluster = cluster
        self._kind = kind
        self._known: dict[str, int] = {}

    async def find(self, key: str) -> int:
        """The broker id of a key's coordinator; keys that do not exist have one too."""

        async def query(node: int) -> int:
            return node

        return await self.one(key, query)

    async def one(self, key: str, query: Callable[[int], Awaitable[T | KafkaError]]) -> T:
        """Query the coordinator of one key; raises its error."""

        async def query_one(node: int, owned: list[str]) -> dict[str, T | KafkaError]:
            return {key: await query(node)}

        return value_of((await self.each([key], query_one))[key])

    async def each(
        self,
        keys: Sequence[str],
        query: Callable[[int, list[str]], Awaitable[Mapping[str, T | KafkaError]]],
    ) -> dict[str, T | KafkaError]:
        """Query all coordinators concurrently, each for its keys; retry keys with retriable errors.

        A key's error becomes its result; the other keys are unaffected.
        """
        results: dict[str, T | KafkaError] = {}
        retriable: dict[str, KafkaError] = {}

        def note(key: str, result: T | KafkaError) -> None:
            if isinstance(result, KafkaError) and result.code.retriable:
                self._known.pop(key, None)
                retriable[key] = result
            else:
                results[key] = result

        async def attempt() -> None:
            retriable.clear()
            pending = [key for key in keys if key not in results]
            for key, error in (await self._look_up(pending)).items():
                note(key, error)
            by_node: dict[int, list[str]] = {}
            for key in pending:
                if key in self._known:
                    by_node.setdefault(self._known[key], []).append(key)
            requests = [(node, chunk) for node, owned in by_node.items() for chunk in _chunks(owned)]
            for found in await asyncio.gather(*(_query(query, node, chunk) for node, chunk in requests)):
                for key, result in found.items():
                    note(key, result)
            for error in retriable.values():
                raise error

        try:
            await self._cluster.retrying(attempt)
        except KafkaError as error:
            if error not in retriable.values():
                raise
        return {key: results[key] if key in results else retriable[key] for key in keys}

    async def _look_up(self, keys: Sequence[str]) -> dict[str, KafkaError]:
        """Find coordinators that are not cached; returns the errors of keys whose lookup failed."""
        wanted = [key for key in dict.fromkeys(keys) if key not in self._known]
        errors: dict[str, KafkaError] = {}
        if not wanted:
            return errors
        connection = await self._cluster.any_connection()
        if connection.version_for(FindCoordinatorRequest) >= _BATCH_VERSION:
            requests = [
                FindCoordinatorRequest(key_type=self._kind, coordinator_keys=chunk)
                for chunk in _chunks(wanted)
            ]
        else:
            requests = [FindCoordinatorRequest(key_type=self._kind, key=key) for key in wanted]
        min_version = 0 if self._kind is Coordinated.GROUP else _KEY_TYPE_VERSION
        responses = await asyncio.gather(
            *(
                connection.request(request, FindCoordinatorResponse, min_version=min_version)
                for request in requests
            )
        )
        for request, response in zip(requests, responses, strict=True):
            found = [(c.key, c.node_id, c.error_code, c.error_message) for c in response.coordinators]
            if not request.coordinator_keys:
                found = [(request.key, response.node_id, response.error_code, response.error_message)]
            for key, node_id, code, message in found:
                if code:
                    fallback = f"the coordinator of {self._kind.name.lower()} {key!r} was not found"
                    errors[key] = error_of(code, message or fallback)
                else:
                    self._known[key] = node_id
        return errors


async def _query(
    query: Callable[[int, list[str]], Awaitable[Mapping[str, T | KafkaError]]], node: int, owned: list[str]
) -> dict[str, T | KafkaError]:
    """The results of one coordinator; if the query fails, its error is the result of every key."""
    try:
        found = await query(node, owned)
    except KafkaError as error:
        if error.code == ErrorCode.BROKER_NOT_AVAILABLE:
            # The broker left the cluster after the lookup, so its keys are moving to another coordinator.
            error = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message)
        return dict.fromkeys(owned, error)
    return {
        key: found[key]
        if key in found
        else ConnectionLost(f"the response of broker {node} does not include {key!r}")
        for key in owned
    }


def _chunks(keys: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(keys), _KEYS_PER_REQUEST):
        yield keys[start : start + _KEYS_PER_REQUEST]


def value_of(result: T | KafkaError) -> T:
    """The result; raises it if it is an error."""
    if isinstance(result, KafkaError):
        raise result
    return result
