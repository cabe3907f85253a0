"""JoinGroup v0-9: become a member of a classic group; answered when the rebalance is complete.

v1: a rebalance timeout apart from the session's. v4: a new member is given its id first and joins with it
(KIP-394). v5: static members (KIP-345). v7: the answer names the protocol type. v9: a static leader that came
back is told to skip the assignment (KIP-814).
"""

from __future__ import annotations

from collections.abc import Awaitable

from ruslo.broker.handlers.services import Services
from ruslo.broker.requests.context import RequestContext
from ruslo.protocol.message import Message
from ruslo.protocol.messages.join_group_request import JoinGroupRequest


def handle(
    services: Services, request: JoinGroupRequest, context: RequestContext
) -> Message | Awaitable[Message]:
    return services.groups.submit(request.group_id, request, context)
