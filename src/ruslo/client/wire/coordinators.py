"""Which broker coordinates a group or a transactional id, and asking the coordinators of many at once."""

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

_KEY_TYPES = 1
_MANY_KEYS = 4
"""Versions of FindCoordinator: for other things than groups (KIP-98), for many keys at once (KIP-699)."""
_KEYS_PER_REQUEST = 500


class Coordinated(enum.IntEnum):
    """What has a coordinator; numbers as in FindCoordinator."""

    GROUP = 0
    TRANSACTION = 1


class Coordinators:
    """Remembers who coordinates what; what turns out wrong is looked up anew."""

    def __init__(self, cluster: Cluster, kind: Coordinated = Coordinated.GROUP) -> None:
        self._cluster = cluster
        self._kind = kind
        self._known: dict[str, int] = {}

    async def find(self, key: str) -> int:
        """The id of the broker that coordinates it; even what does not exist has a coordinator."""

        async def ask(node: int, owned: list[str]) -> dict[str, int]:
            return dict.fromkeys(owned, node)

        return value_of((await self.each([key], ask))[key])

    async def each(
        self,
        keys: Sequence[str],
        ask: Callable[[int, list[str]], Awaitable[Mapping[str, T | KafkaError]]],
    ) -> dict[str, T | KafkaError]:
        """Ask every coordinator about its keys, all at once; keys that failed for now are asked again.

        An error that stays is the answer for its key alone.
        """
        answers: dict[str, T | KafkaError] = {}
        passing: dict[str, KafkaError] = {}

        def note(key: str, answer: T | KafkaError) -> None:
            if isinstance(answer, KafkaError) and answer.code.retriable:
                self._known.pop(key, None)
                passing[key] = answer
            else:
                answers[key] = answer

        async def attempt() -> None:
            passing.clear()
            missing = [key for key in keys if key not in answers]
            for key, error in (await self._look_up(missing)).items():
                note(key, error)
            by_node: dict[int, list[str]] = {}
            for key in missing:
                if key in self._known:
                    by_node.setdefault(self._known[key], []).append(key)
            asked = [(node, part) for node, owned in by_node.items() for part in _parts(owned)]
            for found in await asyncio.gather(*(_ask(ask, node, part) for node, part in asked)):
                for key, answer in found.items():
                    note(key, answer)
            for error in passing.values():
                raise error

        try:
            await self._cluster.retrying(attempt)
        except KafkaError as error:
            if error not in passing.values():
                raise
        return {key: answers[key] if key in answers else passing[key] for key in keys}

    async def _look_up(self, keys: Sequence[str]) -> dict[str, KafkaError]:
        """Learn the coordinators that are not known; answers with those that could not be found."""
        wanted = [key for key in dict.fromkeys(keys) if key not in self._known]
        errors: dict[str, KafkaError] = {}
        if not wanted:
            return errors
        connection = await self._cluster.any_connection()
        if connection.version_for(FindCoordinatorRequest) >= _MANY_KEYS:
            requests = [
                FindCoordinatorRequest(key_type=self._kind, coordinator_keys=part) for part in _parts(wanted)
            ]
        else:
            requests = [FindCoordinatorRequest(key_type=self._kind, key=key) for key in wanted]
        needed = 0 if self._kind is Coordinated.GROUP else _KEY_TYPES
        responses = await asyncio.gather(
            *(
                connection.request(request, FindCoordinatorResponse, min_version=needed)
                for request in requests
            )
        )
        for request, response in zip(requests, responses, strict=True):
            found = [(c.key, c.node_id, c.error_code, c.error_message) for c in response.coordinators]
            if not request.coordinator_keys:
                found = [(request.key, response.node_id, response.error_code, response.error_message)]
            for key, node_id, code, message in found:
                if code:
                    errors[key] = error_of(
                        code, message or f"the coordinator of {self._kind.name.lower()} {key!r} is not known"
                    )
                else:
                    self._known[key] = node_id
        return errors


async def _ask(
    ask: Callable[[int, list[str]], Awaitable[Mapping[str, T | KafkaError]]], node: int, owned: list[str]
) -> dict[str, T | KafkaError]:
    """One coordinator's answers; that it cannot be asked is the answer for each of its keys."""
    try:
        found = await ask(node, owned)
    except KafkaError as error:
        if error.code == ErrorCode.BROKER_NOT_AVAILABLE:
            # It left after it was found: somebody else coordinates them now, or will in a moment.
            error = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message)
        return dict.fromkeys(owned, error)
    return {
        key: found[key] if key in found else ConnectionLost(f"broker {node} left {key!r} out of its answer")
        for key in owned
    }


def _parts(keys: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(keys), _KEYS_PER_REQUEST):
        yield keys[start : start + _KEYS_PER_REQUEST]


def value_of(answer: T | KafkaError) -> T:
    """The answer, or the error it turned out to be."""
    if isinstance(answer, KafkaError):
        raise answer
    return answer
