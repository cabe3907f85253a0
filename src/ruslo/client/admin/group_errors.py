"""Errors of groups, in words that say which group."""

from __future__ import annotations

from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.net.channel import error_of


def describe_error(noun: str, group_id: str, code: int, message: str | None) -> KafkaError:
    """Why a group cannot be described; ``noun`` says its type."""
    if code == ErrorCode.GROUP_ID_NOT_FOUND:
        return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"{noun} {group_id!r} does not exist")
    return error_of(code, message or f"{noun} {group_id!r} cannot be described")
