"""What a node keeps about the client of a connection: its permissions and its quotas."""

from __future__ import annotations

from dataclasses import dataclass

from ruslo.broker.requests.access import Access
from ruslo.machines.quota import NO_METERS, ClientMeters, ClientQuotas, Meter

_NO_CLIENT_ID = b"\0"
_NS_PER_S = 1_000_000_000


@dataclass(slots=True, eq=False)
class ClientSession:
    access: Access
    quotas: ClientQuotas
    user: str
    meters: ClientMeters = NO_METERS
    """The quotas of the client that sent the request being handled."""
    _client_id: bytes = _NO_CLIENT_ID
    _version: int = -1

    def use_client_id(self, client_id: bytes) -> None:
        """Find the quotas of a client id; all requests of a connection have the same one, as a rule."""
        if client_id != self._client_id or self._version != self.quotas.version:
            self._client_id, self._version = client_id, self.quotas.version
            self.meters = self.quotas.meters(self.user, client_id.decode("utf-8", "replace"))

    def throttle_ms(self, meter: Meter | None, amount: int, busy_ns: int, now_ms: int) -> int:
        """Record bytes, and the time that the request took; returns how long the client must wait."""
        waits_ms = 0 if meter is None else meter.throttle_ms(amount, now_ms)
        return max(waits_ms, self._throttle_request_ms(busy_ns, now_ms))

    def admit_ms(self, meter: Meter | None, amount: int, busy_ns: int, now_ms: int) -> int:
        """Record bytes if the client need not wait, and the time that the request took; returns its wait."""
        waits_ms = self._throttle_request_ms(busy_ns, now_ms)
        if meter is None:
            return waits_ms
        quota_ms = meter.admit_ms(amount, now_ms)
        if waits_ms and not quota_ms:
            meter.unrecord(amount)
        return max(waits_ms, quota_ms)

    def _throttle_request_ms(self, busy_ns: int, now_ms: int) -> int:
        request = self.meters.request
        if request is None:
            return 0
        # A quota of 100 percent is all the time of the event loop, of which there is one.
        percent = busy_ns * 100 / _NS_PER_S
        return min(request.throttle_ms(percent, now_ms), self.quotas.windows.size_ms)
