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
        request = self.meters.request
        if request is not None:
            # A quota of 100 percent is all the time of the event loop, of which there is one.
            percent = busy_ns * 100 / _NS_PER_S
            waits_ms = max(waits_ms, min(request.throttle_ms(percent, now_ms), self.quotas.windows.size_ms))
        return waits_ms
