"""Files of a stopped broker are damaged: what clients get from the restarted process."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from confluent_kafka import Producer

from ruslo.model.errors import ErrorCode
from ruslo.net.channel import Channel, ChannelSettings
from ruslo.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from ruslo.protocol.messages.fetch_response import FetchResponse
from ruslo.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from ruslo.protocol.messages.metadata_response import MetadataResponse
from ruslo.records.reader import iter_batches
from ruslo.testing.embedded import BrokerFailed, EmbeddedBroker
from tests.support.clients.librdkafka import read_records

PROPERTIES = {"log.segment.bytes": "1048576"}
RECORDS = 60


def fill(bootstrap: str) -> None:
    """Records of 50,000 bytes in several segments, all of them in transactions, every third aborted."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": "writer", "linger.ms": 0, "log_level": 0}
    )
    producer.init_transactions(30)
    for number in range(RECORDS):
        producer.begin_transaction()
        producer.produce("t", b"%d " % number * 12_500)
        producer.flush(30)
        if number % 3 == 0:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)


def committed(bootstrap: str, count: int) -> list[int]:
    records = read_records(bootstrap, "t", 1, count, settings={"isolation.level": "read_committed"})
    return [int((record.value() or b"").split()[0]) for record in records]


async def first_offset_read(bootstrap: str, offset: int) -> tuple[ErrorCode, int]:
    """The error of a fetch, and the base offset of what it brought."""
    host, port = bootstrap.split(":")
    connection = await Channel.open(host, int(port), ChannelSettings(client_id="test"))
    try:
        described = await connection.request(
            MetadataRequest(topics=[MetadataRequestTopic(name="t")]), MetadataResponse
        )
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        topic = FetchTopic(topic="t", topic_id=described.topics[0].topic_id, partitions=[partition])
        request = FetchRequest(session_epoch=-1, max_bytes=1 << 20, topics=[topic])
        response = await connection.request(request, FetchResponse)
        (fetched,) = response.responses[0].partitions
        bases = [header.base_offset for _, header in iter_batches(fetched.records or b"")]
        return ErrorCode(fetched.error_code), bases[0] if bases else -1
    finally:
        await connection.close()


def test_damaged_files(tmp_path: Path) -> None:
    sound = [number for number in range(RECORDS) if number % 3]
    with EmbeddedBroker(PROPERTIES, data_dir=tmp_path / "data") as broker:
        fill(broker.bootstrap)
        assert committed(broker.bootstrap, len(sound)) == sound
        broker.stop()
        partition = tmp_path / "data" / "t-0"
        for path in partition.glob("*.txnindex"):
            path.write_bytes(b"")
        broker.start()
        assert committed(broker.bootstrap, len(sound)) == sound, "aborted records stay hidden"

        broker.stop()
        second = sorted(partition.glob("*.log"))[1]
        base = int(second.stem)
        content = second.read_bytes()
        second.write_bytes(bytes(len(content)))
        broker.start()
        code, _ = asyncio.run(first_offset_read(broker.bootstrap, base))
        assert code is ErrorCode.CORRUPT_MESSAGE
        third = int(sorted(partition.glob("*.log"))[2].stem)
        assert asyncio.run(first_offset_read(broker.bootstrap, 0)) == (ErrorCode.NONE, 0)
        assert asyncio.run(first_offset_read(broker.bootstrap, third)) == (ErrorCode.NONE, third)

        broker.stop()
        second.write_bytes(b"")
        broker.start()
        code, _ = asyncio.run(first_offset_read(broker.bootstrap, base))
        assert code is ErrorCode.CORRUPT_MESSAGE
        assert "is empty" in broker.output(200)

        broker.stop()
        second.write_bytes(content)
        broker.start()
        assert committed(broker.bootstrap, len(sound)) == sound

        broker.stop()
        for path in (tmp_path / "data" / "__cluster_metadata-0").glob("*.log"):
            path.write_bytes(bytes(path.stat().st_size))
        with pytest.raises(BrokerFailed, match="is empty, but there are partitions"):
            broker.start()
        assert second.exists()
