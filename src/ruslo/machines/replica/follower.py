"""What a leader knows of one follower: only what the follower's fetches say.

"Caught up" is a point in time, not a state: the last time at which the follower had everything the leader
had.

- A fetch from the leader's log end proves that it is caught up now.
- A fetch from where the log ended at the previous fetch proves that it was caught up then. Without this rule
  a follower under steady load would never catch up, because the log end moves while its request travels.
"""

from __future__ import annotations

from dataclasses import dataclass

UNKNOWN_OFFSET = -1
UNKNOWN_EPOCH = -1


@dataclass(slots=True, eq=False)
class Follower:
    broker_id: int
    caught_up_ms: int
    """Members of the ISR count as caught up when the leadership begins."""
    end_offset: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    broker_epoch: int = UNKNOWN_EPOCH
    """The broker epoch of its last fetch (KIP-903)."""
    _last_fetch_leader_end: int = UNKNOWN_OFFSET
    _last_fetch_ms: int = 0

    def on_fetch(
        self, offset: int, log_start_offset: int, broker_epoch: int, leader_end: int, now_ms: int
    ) -> None:
        """The follower fetches from ``offset`` on, so it has everything before it."""
        if offset >= leader_end:
            if now_ms > self.caught_up_ms:
                self.caught_up_ms = now_ms
        elif offset >= self._last_fetch_leader_end >= 0:
            self.caught_up_ms = max(self.caught_up_ms, self._last_fetch_ms)
        self.end_offset = offset
        self.log_start_offset = log_start_offset
        self.broker_epoch = broker_epoch
        self._last_fetch_leader_end = leader_end
        self._last_fetch_ms = now_ms

    def is_caught_up(self, leader_end: int, now_ms: int, lag_ms: int) -> bool:
        return self.end_offset == leader_end or now_ms - self.caught_up_ms <= lag_ms
