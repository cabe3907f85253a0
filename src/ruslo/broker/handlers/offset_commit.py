"""OffsetCommit v2-10: commits offsets of a group.

v2-4: the client may set the retention time. v6: leader epochs (KIP-320). v7: static members. v9: member
epochs of the new protocol (KIP-848). v10: topic ids (KIP-516).
"""

from __future__ import annotations

from ruslo.broker.handlers.allowed_resources import submit_allowed_topics
from ruslo.broker.handlers.services import Response, Services
from ruslo.broker.requests.context import RequestContext
from ruslo.model.acls import Operation, ResourceType
from ruslo.protocol.messages.offset_commit_request import OffsetCommitRequest


def handle(services: Services, request: OffsetCommitRequest, context: RequestContext) -> Response:
    context.require(Operation.READ, ResourceType.GROUP, request.group_id)
    name_of = services.metadata.image.topics.name_of
    return submit_allowed_topics(
        request,
        context,
        Operation.READ,
        lambda topic: topic.name or name_of(topic.topic_id),
        lambda allowed: services.groups.submit(request.group_id, allowed, context),
    )
