"""Which broker coordinates a group, and asking the coordinators of many groups at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from ruslo.client.cluster import Cluster
from ruslo.client.connection import error_of
from ruslo.client.errors import ConnectionLost
from ruslo.model.errors import KafkaError
from ruslo.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ruslo.protocol.messages.find_coordinator_response import FindCoordinatorResponse

T = TypeVar("T")

_MANY_KEYS = 4
"""The version of FindCoordinator that looks up many groups at once (KIP-699)."""
_GROUPS_PER_REQUEST = 500


class Coordinators:
    """Remembers who coordinates what; what turns out wrong is looked up anew."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[str, int] = {}

    async def find(self, group_id: str) -> int:
        """The id of the broker that coordinates the group; every group has one, even if it does not exist."""

        async def ask(node: int, owned: list[str]) -> dict[str, int]:
            return dict.fromkeys(owned, node)

        return value_of((await self.each_group([group_id], ask))[group_id])

    async def each_group(
        self,
        group_ids: Sequence[str],
        ask: Callable[[int, list[str]], Awaitable[Mapping[str, T | KafkaError]]],
    ) -> dict[str, T | KafkaError]:
        """Ask every coordinator about its groups, all at once; groups that failed for now are asked again.

        An error that stays is the answer for its group alone.
        """
        answers: dict[str, T | KafkaError] = {}
        passing: dict[str, KafkaError] = {}

        def note(group_id: str, answer: T | KafkaError) -> None:
            if isinstance(answer, KafkaError) and answer.code.retriable:
                self._known.pop(group_id, None)
                passing[group_id] = answer
            else:
                answers[group_id] = answer

        async def attempt() -> None:
            passing.clear()
            missing = [group_id for group_id in group_ids if group_id not in answers]
            for group_id, error in (await self._look_up(missing)).items():
                note(group_id, error)
            by_node: dict[int, list[str]] = {}
            for group_id in missing:
                if group_id in self._known:
                    by_node.setdefault(self._known[group_id], []).append(group_id)
            asked = [(node, part) for node, owned in by_node.items() for part in _parts(owned)]
            for found in await asyncio.gather(*(_ask(ask, node, part) for node, part in asked)):
                for group_id, answer in found.items():
                    note(group_id, answer)
            for error in passing.values():
                raise error

        try:
            await self._cluster.retrying(attempt)
        except KafkaError as error:
            if error not in passing.values():
                raise
        return {
            group_id: answers[group_id] if group_id in answers else passing[group_id]
            for group_id in group_ids
        }

    async def _look_up(self, group_ids: Sequence[str]) -> dict[str, KafkaError]:
        """Learn the coordinators that are not known; answers with those that could not be found."""
        wanted = [group_id for group_id in dict.fromkeys(group_ids) if group_id not in self._known]
        errors: dict[str, KafkaError] = {}
        if not wanted:
            return errors
        connection = await self._cluster.any_connection()
        if connection.version_for(FindCoordinatorRequest) >= _MANY_KEYS:
            requests = [FindCoordinatorRequest(coordinator_keys=part) for part in _parts(wanted)]
        else:
            requests = [FindCoordinatorRequest(key=group_id) for group_id in wanted]
        responses = await asyncio.gather(
            *(connection.request(request, FindCoordinatorResponse) for request in requests)
        )
        for request, response in zip(requests, responses, strict=True):
            found = [(c.key, c.node_id, c.error_code, c.error_message) for c in response.coordinators]
            if not request.coordinator_keys:
                found = [(request.key, response.node_id, response.error_code, response.error_message)]
            for group_id, node_id, code, message in found:
                if code:
                    errors[group_id] = error_of(
                        code, message or f"the coordinator of group {group_id!r} is not known"
                    )
                else:
                    self._known[group_id] = node_id
        return errors


async def _ask(
    ask: Callable[[int, list[str]], Awaitable[Mapping[str, T | KafkaError]]], node: int, owned: list[str]
) -> dict[str, T | KafkaError]:
    """One coordinator's answers; that it cannot be asked is the answer for each of its groups."""
    try:
        found = await ask(node, owned)
    except KafkaError as error:
        return dict.fromkeys(owned, error)
    silent = ConnectionLost(f"broker {node} left a group out of its answer")
    return {group_id: found.get(group_id, silent) for group_id in owned}


def _parts(group_ids: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(group_ids), _GROUPS_PER_REQUEST):
        yield group_ids[start : start + _GROUPS_PER_REQUEST]


def value_of(answer: T | KafkaError) -> T:
    """The answer, or the error it turned out to be."""
    if isinstance(answer, KafkaError):
        raise answer
    return answer
