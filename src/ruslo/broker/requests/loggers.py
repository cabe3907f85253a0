"""The log levels of this process, described and altered as BROKER_LOGGER configs (KIP-412)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from ruslo.model.errors import ErrorCode, KafkaError

ROOT: Final = "root"

_LEVEL_OF: Final = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
_SET, _DELETE = 0, 1


def logger_levels() -> dict[str, str]:
    """Return the effective level of every Ruslo logger and the root logger, by name."""
    names = [name for name in logging.root.manager.loggerDict if name == "ruslo" or name.startswith("ruslo.")]
    levels = {ROOT: _name_of(logging.root.level)}
    for name in sorted(names):
        levels[name] = _name_of(logging.getLogger(name).getEffectiveLevel())
    return levels


def change_logger_levels(
    node_id: int, resource_name: str, changes: Sequence[tuple[str, int, str | None]], *, validate_only: bool
) -> None:
    """Make all changes or none; raises KafkaError for the first invalid one."""
    require_own_loggers(node_id, resource_name)
    known = logger_levels()
    for name, operation, value in changes:
        if operation not in (_SET, _DELETE):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"the level of logger {name} can only be set or deleted"
            )
        if name not in known:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"unknown logger {name!r}")
        if operation == _DELETE and name == ROOT:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "the level of the root logger cannot be deleted; set one"
            )
        if operation == _SET and value not in _LEVEL_OF:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"{value!r} is not a level for {name}; use one of {', '.join(_LEVEL_OF)}",
            )
    if validate_only:
        return
    for name, operation, value in changes:
        logger = logging.root if name == ROOT else logging.getLogger(name)
        logger.setLevel(logging.NOTSET if operation == _DELETE or value is None else _LEVEL_OF[value])


def require_own_loggers(node_id: int, resource_name: str) -> None:
    if resource_name != str(node_id):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"broker {node_id} does not know the loggers of broker {resource_name!r}; ask that broker",
        )


def _name_of(level: int) -> str:
    return max((each, name) for name, each in _LEVEL_OF.items() if each <= max(level, 5))[1]
