"""Verifies the batches that the leaders of a topic return."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import human_bytes
from ruslo.cli.terminal.progress import Progress
from ruslo.records.batch import BASE_OFFSET, RECORD_COUNT, last_offset_of, size_of

if TYPE_CHECKING:
    from ruslo.client.admin.admin import Admin
    from ruslo.model.topics import TopicPartition
    from ruslo.storage.verify import PartitionReport

_FETCH_BYTES = 8 << 20


def verify_topics(bootstrap: str, topics: Sequence[str]) -> list[PartitionReport]:
    async def run(admin: Admin) -> list[PartitionReport]:
        from ruslo.model.topics import TopicPartition

        progress = Progress()
        reports = []
        for topic in topics:
            described = await admin.topics.describe(topic)
            partitions = [TopicPartition(topic, each.partition) for each in described.partitions]
            ranges = await admin.offsets.ranges(partitions)
            for partition in partitions:
                reports.append(await _check(admin, partition, *ranges[partition], progress))
        progress.clear()
        return reports

    return with_admin(bootstrap, run)


async def _check(
    admin: Admin, partition: TopicPartition, start: int, end: int, progress: Progress
) -> PartitionReport:
    from ruslo.client.wire.raw import RawClient
    from ruslo.records.batch import HEADER_SIZE
    from ruslo.storage.batch_scan import buffer_headers
    from ruslo.storage.sound_batches import check_batch_content
    from ruslo.storage.verify import Finding, Kind, PartitionReport

    client = RawClient(admin.cluster)
    report = PartitionReport(str(partition))
    offset = start
    while offset < end:
        fetched = (await client.fetch({partition: offset}, partition_max_bytes=_FETCH_BYTES))[partition]
        next_offset = None
        data = memoryview(fetched.records)
        for position, header in buffer_headers(data):
            size = size_of(header)
            problem = check_batch_content(header, data[position : position + size])
            if problem is None and next_offset is not None and header[BASE_OFFSET] < next_offset:
                problem = f"it follows offset {next_offset - 1}"
            if problem is not None:
                message = f"the batch at offset {header[BASE_OFFSET]}: {problem}"
                report.findings.append(
                    Finding(Kind.RECORDS, str(partition), message, size=size, offset=header[BASE_OFFSET])
                )
            next_offset = last_offset_of(header) + 1
            report.batches += 1
            report.records += header[RECORD_COUNT]
            report.bytes += size
            progress.tick(lambda: f"{human_bytes(report.bytes)} of {partition} verified")
        if next_offset is None:
            if len(data) >= HEADER_SIZE:
                message = f"the broker returned {len(data)} bytes for offset {offset} that are not a batch"
                report.findings.append(Finding(Kind.RECORDS, str(partition), message, offset=offset))
            break
        offset = next_offset
    return report
