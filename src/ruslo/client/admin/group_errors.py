"""Errors of groups, in words that say which group."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.net.channel import error_of

T = TypeVar("T")


def descriptions(noun: str, groups: Iterable[Any], convert: Callable[[Any], T]) -> dict[str, T | KafkaError]:
    """The converted group, or the error, by group id; ``noun`` says the type of the groups."""
    return {
        group.group_id: describe_error(noun, group.group_id, group.error_code, group.error_message)
        if group.error_code
        else convert(group)
        for group in groups
    }


def describe_error(noun: str, group_id: str, code: int, message: str | None) -> KafkaError:
    """Why a group cannot be described; ``noun`` says its type."""
    if code == ErrorCode.GROUP_ID_NOT_FOUND:
        return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"{noun} {group_id!r} does not exist")
    return error_of(code, message or f"{noun} {group_id!r} cannot be described")
