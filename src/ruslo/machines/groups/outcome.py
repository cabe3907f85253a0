"""The outcome of an event of a group shard."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeAlias

from ruslo.machines.groups.events import GroupQuery
from ruslo.machines.groups.records import GroupRecord
from ruslo.machines.machine import Outcome, Reply
from ruslo.model.errors import KafkaError
from ruslo.protocol.message import Message

Response: TypeAlias = Message | KafkaError
"""A KafkaError stands for a response that contains only an error; ``errors.error_response`` builds it."""
GroupReply: TypeAlias = Reply[Response]
GroupOutcome: TypeAlias = Outcome[GroupRecord, Response, GroupQuery]


def respond(token: Hashable, message: Response) -> GroupOutcome:
    """Reply when everything that this shard has appended is committed."""
    return Outcome(replies=[Reply(token, message)], linearizable=True)
