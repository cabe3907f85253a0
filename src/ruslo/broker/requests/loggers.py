"""The log levels of this process, described and altered as BROKER_LOGGER configs (KIP-412).

Changes last until the process ends. Checks have the order and the error codes of Apache Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
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
    """Return the effective level of every logger of this process, by name.

    Packages of Ruslo that have no logger of their own are included: their level applies to the modules below.
    """
    levels = {ROOT: _name_of(logging.root.level)}
    for name, found in sorted(logging.root.manager.loggerDict.items()):
        if not isinstance(found, logging.Logger) and name.partition(".")[0] != "ruslo":
            continue
        levels[name] = _name_of(logging.getLogger(name).getEffectiveLevel())
    return levels


def change_logger_levels(
    node_id: int, resource_name: str, changes: Sequence[tuple[str, int, str | None]], *, validate_only: bool
) -> None:
    """Make all changes or none; raises KafkaError for the first invalid one."""
    require_own_loggers(node_id, resource_name)
    if len({name for name, _, _ in changes}) < len(changes):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "A logger is in the request twice. Send one change of each"
        )
    known = logger_levels()
    for name, operation, value in changes:
        if operation not in (_SET, _DELETE):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"The level of logger {name} can only be set or deleted"
            )
        if operation == _SET and value is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Logger {name} is set to no level. Name one")
        if name not in known:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown logger {name!r}{_likely(name, known)}")
        if operation == _DELETE and name == ROOT:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "The level of the root logger cannot be deleted. Set another one"
            )
        if operation == _SET and value not in _LEVEL_OF:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"{value!r} is not a level for logger {name}. Use one of {', '.join(_LEVEL_OF)}",
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
            f"Node {node_id} does not have the loggers of node {resource_name!r}. Send the request to that "
            "one",
        )


def _likely(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, known, n=1)
    return f". Did you mean {close[0]!r}?" if close else ""


def _name_of(level: int) -> str:
    return max((each, name) for name, each in _LEVEL_OF.items() if each <= max(level, 5))[1]
