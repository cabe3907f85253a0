"""AlterReplicaLogDirs v1-2: moves replicas to other log directories of this broker (KIP-113).

The response says that the moves have begun; DescribeLogDirs shows how far they are. As in Apache Kafka, the
directory of a replica that this broker does not have yet is remembered, and the result is an error.
"""

from __future__ import annotations

from ruslo.broker.handlers.services import Services
from ruslo.broker.requests.context import RequestContext
from ruslo.broker.scheduling.scheduler import Priority, Steps
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.protocol.messages.alter_replica_log_dirs_request import AlterReplicaLogDirsRequest
from ruslo.protocol.messages.alter_replica_log_dirs_response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)


async def handle(
    services: Services, request: AlterReplicaLogDirsRequest, context: RequestContext
) -> AlterReplicaLogDirsResponse:
    # The last directory counts if a partition is named twice.
    wanted = {
        TopicPartition(topic.name, index): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }
    by_topic: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}

    def alter_all() -> Steps[None]:
        for tp, path in wanted.items():
            error = ErrorCode.NONE
            try:
                services.log_dir_moves.alter(tp, path)
            except KafkaError as failure:
                error = failure.code
            by_topic.setdefault(tp.topic, []).append(
                AlterReplicaLogDirPartitionResult(partition_index=tp.partition, error_code=error)
            )
            yield

    # Each move begins with a few system calls.
    await services.scheduler.run(alter_all(), priority=Priority.REQUEST, name="AlterReplicaLogDirs")
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(topic_name=topic, partitions=results)
            for topic, results in by_topic.items()
        ]
    )
