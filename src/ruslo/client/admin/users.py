"""SCRAM users: list, set a password, delete."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ruslo.client.wire.cluster import Cluster
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.scram import MIN_ITERATIONS, ScramMechanism, new_salt, salted_password
from ruslo.model.secret import Secret
from ruslo.net.channel import check_code, error_of
from ruslo.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ruslo.protocol.messages.alter_user_scram_credentials_response import AlterUserScramCredentialsResponse
from ruslo.protocol.messages.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from ruslo.protocol.messages.describe_user_scram_credentials_response import (
    DescribeUserScramCredentialsResponse,
)


class ScramUser(NamedTuple):
    name: str
    iterations: dict[ScramMechanism, int]
    """The mechanisms with which the user can log in, and the iterations of each."""


class Users:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def list(self, names: Iterable[str] = ()) -> list[ScramUser]:
        """These users, or all; raises RESOURCE_NOT_FOUND for a user without credentials."""
        wanted = [UserName(name=name) for name in names]
        request = DescribeUserScramCredentialsRequest(users=wanted or None)

        async def attempt() -> list[ScramUser]:
            response = await self._cluster.any_broker(request, DescribeUserScramCredentialsResponse)
            check_code(response.error_code, response.error_message)
            for result in response.results:
                check_code(result.error_code, result.error_message)
            return [
                ScramUser(
                    result.user,
                    {ScramMechanism(info.mechanism): info.iterations for info in result.credential_infos},
                )
                for result in sorted(response.results, key=lambda result: result.user)
            ]

        return await self._cluster.retrying(attempt)

    async def set_password(
        self,
        name: str,
        password: Secret,
        mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_512,
        *,
        iterations: int = MIN_ITERATIONS,
    ) -> None:
        """Add a user or replace its password. The password itself is not sent."""
        salt = new_salt()
        # Milliseconds of work, on purpose.
        salted = await asyncio.to_thread(salted_password, mechanism, password, salt, iterations)
        upsertion = ScramCredentialUpsertion(
            name=name, mechanism=mechanism.value, iterations=iterations, salt=salt, salted_password=salted
        )
        await self._alter(AlterUserScramCredentialsRequest(upsertions=[upsertion]))

    async def delete(self, name: str, mechanisms: Sequence[ScramMechanism]) -> None:
        """Remove the credentials of these mechanisms; raises RESOURCE_NOT_FOUND if one does not exist."""
        for mechanism in mechanisms:
            deletion = ScramCredentialDeletion(name=name, mechanism=mechanism.value)
            await self._alter(AlterUserScramCredentialsRequest(deletions=[deletion]))

    async def _alter(self, request: AlterUserScramCredentialsRequest) -> None:
        async def attempt() -> None:
            response = await self._cluster.controller(request, AlterUserScramCredentialsResponse)
            failures = [result for result in response.results if result.error_code]
            if failures:
                raise error_of(failures[0].error_code, failures[0].error_message)

        await self._cluster.retrying(attempt)


def is_missing(error: KafkaError) -> bool:
    """Whether the error says that the user has no credentials."""
    return error.code is ErrorCode.RESOURCE_NOT_FOUND
