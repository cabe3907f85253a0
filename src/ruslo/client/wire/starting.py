"""Asks a broker whether it is still starting, and how far the recovery of its log directories is."""

from __future__ import annotations

from ruslo.client.wire.bootstrap import Address
from ruslo.model.errors import KafkaError
from ruslo.net.channel import Connection, ConnectionSettings
from ruslo.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from ruslo.protocol.messages.describe_log_dirs_response import DescribeLogDirsResponse
from ruslo.protocol.recovery_tag import VERSION, Recovery

_SETTINGS = ConnectionSettings(connect_timeout_ms=3_000, request_timeout_ms=3_000)


async def recovery_at(address: Address) -> dict[str, Recovery]:
    """By log directory; empty if whoever listens there has started, or nobody does."""
    try:
        connection = await Connection.open_unasked(
            *address, {DescribeLogDirsRequest.API_KEY: VERSION}, _SETTINGS
        )
        try:
            # Of no topics, so that a broker that has long started has little to answer.
            response = await connection.request(DescribeLogDirsRequest(topics=[]), DescribeLogDirsResponse)
        finally:
            await connection.close()
    except KafkaError:
        return {}
    found = {result.log_dir: Recovery.from_tags(result.unknown_tags) for result in response.results}
    return {path: recovery for path, recovery in found.items() if recovery is not None}
