"""Who votes in the quorum of controllers (KIP-853): one more, or one less."""

from __future__ import annotations

from ruslo.client.wire.bootstrap import Address
from ruslo.client.wire.cluster import Cluster
from ruslo.model.errors import ErrorCode
from ruslo.model.ids import Uuid
from ruslo.net.channel import check_code
from ruslo.protocol.messages.add_raft_voter_request import AddRaftVoterRequest, Listener
from ruslo.protocol.messages.add_raft_voter_response import AddRaftVoterResponse
from ruslo.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from ruslo.protocol.messages.remove_raft_voter_response import RemoveRaftVoterResponse

_TIMEOUT_MS = 30_000

# What ran out of time may still happen; asked again, the leader would only see a voter that is there already.
_FINAL = (ErrorCode.REQUEST_TIMED_OUT,)


class Voters:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def add(self, voter_id: int, directory_id: Uuid, listener_name: str, address: Address) -> None:
        """The controller must run and have caught up with the metadata log."""
        request = AddRaftVoterRequest(
            cluster_id=None,
            timeout_ms=_TIMEOUT_MS,
            voter_id=voter_id,
            voter_directory_id=directory_id,
            listeners=[Listener(name=listener_name, host=address.host, port=address.port)],
        )

        async def attempt() -> None:
            response = await self._cluster.controller(request, AddRaftVoterResponse)
            check_code(response.error_code, response.error_message)

        await self._cluster.retrying(attempt, final=_FINAL)

    async def remove(self, voter_id: int, directory_id: Uuid) -> None:
        request = RemoveRaftVoterRequest(cluster_id=None, voter_id=voter_id, voter_directory_id=directory_id)

        async def attempt() -> None:
            response = await self._cluster.controller(request, RemoveRaftVoterResponse)
            check_code(response.error_code, response.error_message)

        await self._cluster.retrying(attempt, final=_FINAL)
