"""Authorization compared with Apache Kafka: equal ACLs and requests get equal responses.

A node of each has the same property file, topics, groups and ACLs. Users send requests of every API under
generated ACL sets. Errors, what is visible, and the authorized operations must be the same.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple, TypeVar

import pytest

from ruslo.broker.dispatch.api_table import HANDLERS
from ruslo.broker.requests.access import AUTHORIZATION_ERRORS
from ruslo.model.acls import Acl
from ruslo.model.errors import ErrorCode
from ruslo.protocol.apis import API_BY_NAME, KAFKA_4_4_VERSIONS
from ruslo.protocol.message import Message
from tests.support.authorization.acl_sets import acl_set
from tests.support.authorization.clients import PROPERTIES, AccessClients, Call, access_clients
from tests.support.authorization.outcomes import Outcome
from tests.support.authorization.requests import FIELDS
from tests.support.brokers.kafka import ApacheKafka
from tests.support.brokers.ruslo import RusloNode
from tests.support.brokers.secured import Secured, secured_node
from tests.support.tools.programs import require_tool

T = TypeVar("T")

SETS = int(os.environ.get("RUSLO_ACL_SETS", "4"))
SEED = int(os.environ.get("RUSLO_ACL_SEED", "1"))
DEFAULTS = ("false", "true") if "RUSLO_ACL_SETS" in os.environ else ("false",)
"""Values of ``allow.everyone.if.no.acl.found``; ``test_authorizer_oracle.py`` always tests both."""

SUPER_USER = "admin"
USERS = ("alice", "bob", "carol")
WITHOUT_AUTHORIZATION = {
    "ApiVersions",
    "SaslHandshake",
    "SaslAuthenticate",
    # Apache Kafka serves them only with a plug-in that receives the metrics.
    "GetTelemetrySubscriptions",
    "PushTelemetry",
}
FILTERED = {"DescribeCluster", "DescribeDelegationToken", "ListGroups", "ListTransactions"}
"""APIs that leave out what a client may not see; the others report an error."""
DENIALS = {*AUTHORIZATION_ERRORS.values(), ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH}
MAX_DIFFERENCES = 20


class Difference(NamedTuple):
    call: Call
    user: str
    request: Message
    ours: Outcome
    theirs: Outcome
    acls: list[Acl]

    def __str__(self) -> str:
        rules = [str(acl) for acl in self.acls if acl.principal in (f"User:{self.user}", "User:*")]
        return "\n".join(
            [
                f"{self.call.api} v{self.call.version} of {self.user}: {self.request}",
                f"  Ruslo: {self.ours}",
                f"  Kafka: {self.theirs}",
                *(f"    {rule}" for rule in rules),
            ]
        )


class Comparison:
    def __init__(self, ours: AccessClients, theirs: AccessClients) -> None:
        self._ours = ours
        self._theirs = theirs
        self.compared = 0
        self.differences: list[Difference] = []
        self.allowed: set[str] = set()
        self.denied: set[str] = set()

    async def compare(self, number: int) -> None:
        """Compare the responses to one request of each API, in several versions, of each user."""
        seed = f"{SEED} {number}"
        random = Random(seed)
        acls = acl_set(random, USERS, number)
        await self._both(lambda clients: clients.restore_topics())
        await self._both(lambda clients: clients.apply(acls))
        calls = [
            Call(api, version)
            for api in FIELDS
            for version in _versions(random, API_BY_NAME[api].min_version, _newest_of_both(api))
        ]
        random.shuffle(calls)
        outcomes: dict[str, tuple[list[Outcome], list[Outcome]]] = {}
        for user in (*USERS, SUPER_USER):
            outcomes[user] = await self._both(
                partial(AccessClients.outcomes, user=user, calls=calls, seed=seed)
            )
        for user, (ours, theirs) in outcomes.items():
            for call, our, their, full in zip(calls, ours, theirs, outcomes[SUPER_USER][1], strict=True):
                self.compared += 1
                if our != their:
                    asked = self._ours.request(call, seed)
                    self.differences.append(Difference(call, user, asked, our, their, acls))
                if user != SUPER_USER:
                    denied = their != full if call.api in FILTERED else bool(DENIALS & set(_codes(their)))
                    (self.denied if denied else self.allowed).add(call.api)

    async def _both(self, act: Callable[[AccessClients], Awaitable[T]]) -> tuple[T, T]:
        """Act on both nodes at the same time."""
        return await asyncio.gather(act(self._ours), act(self._theirs))


def _newest_of_both(api: str) -> int:
    """The newest version that Apache Kafka 4.3 has, too."""
    return API_BY_NAME[api].max_version - (api in KAFKA_4_4_VERSIONS)


def _versions(random: Random, oldest: int, newest: int) -> list[int]:
    return sorted({oldest, newest, random.randint(oldest, newest)})


def _codes(outcome: Outcome) -> Iterator[int]:
    """The error codes in an outcome."""
    if isinstance(outcome, tuple):
        if len(outcome) == 2 and isinstance(outcome[0], str) and outcome[0].endswith("error_code"):
            yield outcome[1]
        else:
            for each in outcome:
                yield from _codes(each)


async def _compare(ours: Secured, theirs: Secured) -> Comparison:
    async with access_clients(ours) as our_clients, access_clients(theirs) as their_clients:
        comparison = Comparison(our_clients, their_clients)
        for number in range(SETS):
            await comparison.compare(number)
    return comparison


@pytest.mark.parametrize("everyone", DEFAULTS, ids=lambda default: f"everyone={default}")
def test_users_are_allowed_and_denied_the_same(tmp_path: Path, everyone: str) -> None:
    require_tool("java")
    properties = {**PROPERTIES, "allow.everyone.if.no.acl.found": everyone}
    ours = secured_node(RusloNode, tmp_path / "ruslo", properties)
    theirs = secured_node(ApacheKafka, tmp_path / "kafka", properties)
    with ExitStack() as stack:
        for each in (theirs, ours):
            each.node.launch()
            stack.callback(each.node.stop)
        for each in (theirs, ours):
            each.node.wait_until_ready()
        comparison = asyncio.run(_compare(ours, theirs))
    print(
        f"{comparison.compared} pairs of ACL set and request compared, {len(comparison.differences)} differ"
    )
    different = "\n".join(map(str, comparison.differences[:MAX_DIFFERENCES]))
    assert not comparison.differences, f"{len(comparison.differences)} responses differ:\n{different}"
    # Every API must occur in a case that is allowed and in one that is denied.
    new = {name for name, version in KAFKA_4_4_VERSIONS.items() if version == 0}
    apis = ({"Produce", "Fetch"} | HANDLERS.keys()) - WITHOUT_AUTHORIZATION - new
    assert apis == FIELDS.keys()
    assert comparison.allowed == apis
    assert comparison.denied == apis
