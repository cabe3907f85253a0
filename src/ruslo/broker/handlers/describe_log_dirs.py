"""DescribeLogDirs v1-5: sizes of the log directories and of the partitions in them.

v3 top-level error, v4 total and usable bytes of the volume (KIP-827), v5 cordoned directories (KIP-1066).
"""

from __future__ import annotations

import os

from ruslo.broker.handlers.services import Services
from ruslo.broker.requests.context import RequestContext
from ruslo.config.limits import LONG_MAX
from ruslo.machines.controller.records import CORDONED_LOG_DIRS_SUPPORTED
from ruslo.model.acls import Operation, ResourceType
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from ruslo.protocol.messages.describe_log_dirs_response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from ruslo.storage.log import Log


def _of_future(services: Services, future: Log) -> DescribeLogDirsPartition:
    """The copy of a replica that moves to another directory, and how many offsets it does not have yet."""
    log = services.logs.get(future.partition)
    return DescribeLogDirsPartition(
        partition_index=future.partition.partition,
        partition_size=future.size_bytes,
        offset_lag=0 if log is None else max(log.end_offset - future.end_offset, 0),
        is_future_key=True,
    )


def handle(
    services: Services, request: DescribeLogDirsRequest, context: RequestContext
) -> DescribeLogDirsResponse:
    if not context.allows(Operation.DESCRIBE, ResourceType.CLUSTER):
        return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    listed = None
    if request.topics is not None:
        listed = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    cordons_supported = services.metadata.image.features.metadata_version >= CORDONED_LOG_DIRS_SUPPORTED
    cordoned = {each.path for each in services.logs.directories if each.cordoned and cordons_supported}
    results = []
    for directory, online in services.partitions.directories():
        if not online:
            results.append(DescribeLogDirsResult(log_dir=directory, error_code=ErrorCode.KAFKA_STORAGE_ERROR))
            continue
        by_topic: dict[str, list[DescribeLogDirsPartition]] = {}
        for partition in services.partitions.in_directory(directory):
            if listed is None or (partition.topic, partition.index) in listed:
                by_topic.setdefault(partition.topic, []).append(
                    DescribeLogDirsPartition(
                        partition_index=partition.index,
                        partition_size=partition.log.size_bytes,
                        # A follower's log may end below the high watermark that it knows.
                        offset_lag=max(partition.log.high_watermark - partition.log.end_offset, 0),
                    )
                )
        for copied in services.logs.moving_to(directory):
            tp = copied.partition
            if listed is None or tp in listed:
                by_topic.setdefault(tp.topic, []).append(_of_future(services, copied))
        try:
            volume = os.statvfs(directory)
        except OSError:
            # The directory is missing, but no read or write has failed yet.
            results.append(DescribeLogDirsResult(log_dir=directory, error_code=ErrorCode.KAFKA_STORAGE_ERROR))
            continue
        results.append(
            DescribeLogDirsResult(
                log_dir=directory,
                topics=[
                    DescribeLogDirsTopic(name=topic, partitions=partitions)
                    for topic, partitions in by_topic.items()
                ],
                # Network storage may report more than fits into 64 bits.
                total_bytes=min(volume.f_blocks * volume.f_frsize, LONG_MAX),
                usable_bytes=min(volume.f_bavail * volume.f_frsize, LONG_MAX),
                is_cordoned=directory in cordoned,
            )
        )
    return DescribeLogDirsResponse(results=results)
