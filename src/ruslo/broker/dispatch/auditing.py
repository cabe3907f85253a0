"""Writes administrative requests of clients to the audit log, with what became of them."""

from __future__ import annotations

from collections.abc import Awaitable
from inspect import isawaitable
from typing import Any

from ruslo.broker.counters.api_stats import error_codes_in
from ruslo.broker.handlers.services import Handler, NodeServices
from ruslo.broker.requests.context import RequestContext
from ruslo.broker.requests.request_summary import request_summary
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.message import Message

AUDITED = frozenset(
    {
        "AddRaftVoter",
        "AlterClientQuotas",
        "AlterConfigs",
        "AlterPartitionReassignments",
        "AlterShareGroupOffsets",
        "AlterUserScramCredentials",
        "CreateAcls",
        "CreateDelegationToken",
        "CreatePartitions",
        "CreateTopics",
        "DeleteAcls",
        "DeleteGroups",
        "DeleteRecords",
        "DeleteShareGroupOffsets",
        "DeleteTopics",
        "ElectLeaders",
        "ExpireDelegationToken",
        "IncrementalAlterConfigs",
        "OffsetDelete",
        "RemoveRaftVoter",
        "RenewDelegationToken",
        "UnregisterBroker",
        "UpdateFeatures",
    }
)
"""APIs with which clients change the cluster."""


def audited(name: str, handle: Handler) -> Handler:
    if name not in AUDITED:
        return handle

    def audit(services: NodeServices, request: Message, context: RequestContext) -> Any:
        if not services.audit.enabled:
            return handle(services, request, context)
        # Described before the handler may change it.
        description = request_summary(request)
        try:
            response = handle(services, request, context)
        except KafkaError as error:
            _write(services, context, description, [error.code.name])
            raise
        if isawaitable(response):
            return _audit_later(services, context, description, response)
        _write(services, context, description, _errors(response))
        return response

    return audit


async def _audit_later(
    services: NodeServices,
    context: RequestContext,
    description: dict[str, Any],
    response: Awaitable[Message],
) -> Message:
    try:
        message = await response
    except KafkaError as error:
        _write(services, context, description, [error.code.name])
        raise
    _write(services, context, description, _errors(message))
    return message


def _errors(response: Message) -> list[str]:
    return sorted({ErrorCode(code).name for code in error_codes_in(response)})


def _write(
    services: NodeServices, context: RequestContext, description: dict[str, Any], errors: list[str]
) -> None:
    services.audit.changed(
        context.principal, context.peer_host, context.client_id, context.api_name, description, errors
    )
