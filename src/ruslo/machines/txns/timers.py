"""The timers of a transaction shard."""

from __future__ import annotations

import enum
from typing import NamedTuple


class TimerKind(enum.IntEnum):
    ABORT = 0
    """The transaction timeout of an ongoing transaction."""
    RETRY = 1
    """Markers and completions that failed are sent or written again (no id)."""
    EXPIRY = 2
    """Transactional ids that have not been used for a long time expire (no id)."""
    DELAYED = 3
    """Requests have waited long enough for the completion of their client's last transaction."""


class TimerKey(NamedTuple):
    kind: TimerKind
    transactional_id: str = ""
