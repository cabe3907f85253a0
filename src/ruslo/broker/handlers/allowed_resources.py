"""Divides the topics and groups of a request into those that its client may use and the others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from copy import copy
from inspect import isawaitable
from typing import Any, TypeVar

from ruslo.broker.handlers.services import Response
from ruslo.broker.requests.access import OPEN
from ruslo.broker.requests.context import RequestContext
from ruslo.broker.requests.error_responses import error_response
from ruslo.model.acls import Operation, ResourceType
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.message import Message

T = TypeVar("T")


def split_topics(
    context: RequestContext, operation: Operation, topics: Iterable[T], name_of: Callable[[T], str | None]
) -> tuple[list[T], list[T]]:
    """The topics on which the operation is allowed, and the others.

    A topic without a name has an id that is unknown. It counts as allowed: there is nothing to protect.
    """
    allowed: list[T] = []
    denied: list[T] = []
    for topic in topics:
        name = name_of(topic)
        if name is None or context.allows(operation, ResourceType.TOPIC, name):
            allowed.append(topic)
        else:
            denied.append(topic)
    return allowed, denied


def split_groups(
    context: RequestContext, operation: Operation, groups: Iterable[str]
) -> tuple[list[str], list[str]]:
    """The groups on which the operation is allowed, and the others, each once."""
    allowed: list[str] = []
    denied: list[str] = []
    for group_id in dict.fromkeys(groups):
        may = context.allows(operation, ResourceType.GROUP, group_id)
        (allowed if may else denied).append(group_id)
    return allowed, denied


def submit_allowed_topics(
    request: Any,
    context: RequestContext,
    operation: Operation,
    name_of: Callable[[Any], str | None],
    submit: Callable[[Any], Response],
) -> Response:
    """Submit a request with its allowed topics; the others get TOPIC_AUTHORIZATION_FAILED.

    For requests whose error response repeats their topics.
    """
    if context.access is OPEN:
        return submit(request)
    allowed, denied = split_topics(context, operation, request.topics, name_of)
    if not denied:
        return submit(request)
    refused: Any = error_response(
        with_topics(request, denied),
        KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        context.api_version,
    )
    if not allowed:
        return refused  # type: ignore[no-any-return]
    return then(
        submit(with_topics(request, allowed)), lambda response: response.topics.extend(refused.topics)
    )


def with_topics(request: Any, topics: list[Any]) -> Any:
    changed = copy(request)
    changed.topics = topics
    return changed


def then(response: Response, change: Callable[[Any], None]) -> Response:
    """The response after ``change`` was applied to it, now or when it is there."""
    if isinstance(response, Message):
        change(response)
        return response
    assert isawaitable(response)
    return _changed(response, change)


async def _changed(response: Awaitable[Message], change: Callable[[Any], None]) -> Message:
    message = await response
    change(message)
    return message
