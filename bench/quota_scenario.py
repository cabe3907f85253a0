"""Quotas: a thousand producers that share the quota of one user, and how precisely it is held.

The clients are plain frames in one process, because a thousand clients of a library would be the load. Their
requests are large compared with the quota, so that each client waits most of the time.
"""

from __future__ import annotations

import asyncio
import time

from bench.contenders import new_ceiling
from bench.group_clients import connections
from bench.measure import cpu_s
from bench.security_scenario import Listener, secured
from bench.setting import Figures, Setting, create_topics
from ruslo.client.admin.admin import Admin
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ruslo.protocol.messages.produce_response import ProduceResponse
from ruslo.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from ruslo.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from ruslo.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from ruslo.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from ruslo.records.builder import build_batch
from ruslo.records.record import Record
from tests.support.brokers.secured import USERS
from tests.support.clients.raw_client import RawClient

USER = "alice"
QUOTA = 5_000_000
RECORD_BYTES = 16 * 1024
CLIENTS = 1_000
TOPIC = "limited"
PARTITIONS = 6
PRODUCE_VERSION = 9  # the last one with topic names
WARM_UP_S = 30.0
"""Quotas admit a burst of ten windows of a second, and more than one set of windows must have passed."""
MEASURED_S = 60.0
SHORTEST_S = 15.0


def quotas(setting: Setting) -> Figures:
    """The throughput of all producers together, divided by their quota."""
    if setting.new_node is new_ceiling:
        return {}
    with secured(setting, "SASL_PLAINTEXT", {"authorizer.class.name": ""}) as listener:
        create_topics(listener.node, {TOPIC: PARTITIONS})
        return asyncio.run(measure(setting, listener))


async def measure(setting: Setting, listener: Listener) -> Figures:
    async with Admin(listener.node.bootstrap) as admin:
        await admin.quotas.alter({"user": USER}, {"producer_byte_rate": float(QUOTA)})
    measured_s = max(MEASURED_S / setting.divisor, SHORTEST_S)
    warm_up_s = max(WARM_UP_S / setting.divisor, SHORTEST_S)
    async with connections(listener.bootstrap, CLIENTS) as clients:
        for client in clients:
            await log_in(client)
        acknowledged = Acknowledged()
        tasks = [
            asyncio.create_task(produce_for_ever(client, number % PARTITIONS, acknowledged))
            for number, client in enumerate(clients)
        ]
        await asyncio.sleep(warm_up_s)
        before, before_s, cpu_before_s = acknowledged.bytes, time.monotonic(), cpu_s(listener.node.pid)
        await asyncio.sleep(measured_s)
        rate = (acknowledged.bytes - before) / (time.monotonic() - before_s)
        cpu_used_s = cpu_s(listener.node.pid) - cpu_before_s
        failures = [task for task in tasks if task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if failures:
            await failures[0]
    return {
        "quota_clients": CLIENTS,
        "quota_held_ratio": rate / QUOTA,
        "quota_error_percent": abs(rate / QUOTA - 1) * 100,
        "quota_cpu_share": cpu_used_s / measured_s,
    }


class Acknowledged:
    """Bytes of acknowledged batches, of all clients."""

    def __init__(self) -> None:
        self.bytes = 0


async def log_in(client: RawClient) -> None:
    await client.call(SaslHandshakeRequest(mechanism="PLAIN"), SaslHandshakeResponse, 1)
    token = f"\0{USER}\0{USERS[USER]}".encode()
    response = await client.call(SaslAuthenticateRequest(auth_bytes=token), SaslAuthenticateResponse, 2)
    if response.error_code:
        raise RuntimeError(f"the log-in of {USER} failed: {response.error_message}")


async def produce_for_ever(client: RawClient, partition: int, acknowledged: Acknowledged) -> None:
    """One batch after the other; the broker does not read the connection while the client must wait."""
    batch = build_batch([Record(0, int(time.time() * 1000), None, bytes(RECORD_BYTES))])
    topic = TopicProduceData(
        name=TOPIC, partition_data=[PartitionProduceData(index=partition, records=batch)]
    )
    request = ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[topic])
    while True:
        response = await client.call(request, ProduceResponse, PRODUCE_VERSION)
        code = response.responses[0].partition_responses[0].error_code
        if code:
            raise RuntimeError(f"a batch was rejected: {ErrorCode(code).name}")
        acknowledged.bytes += len(batch)
