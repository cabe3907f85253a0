"""The partition changes that a request may make: ``controller_mutation_rate`` (KIP-599).

A request of a version that knows THROTTLING_QUOTA_EXCEEDED gets that error for the topics that exceed the
quota. An older one is served, and its client must wait.
"""

from __future__ import annotations

from ruslo.broker.handlers.services import NodeServices
from ruslo.broker.requests.context import RequestContext
from ruslo.model.errors import ErrorCode, KafkaError


class MutationQuota:
    def __init__(self, services: NodeServices, context: RequestContext, *, strict_from: int) -> None:
        """``strict_from``: the first version of the API that knows the error."""
        self._clock = services.clock
        self._bucket = services.quotas.mutations(
            context.principal.name, context.client_id or "", services.clock.monotonic_ms()
        )
        self._strict = context.api_version >= strict_from
        self.throttle_ms = 0
        """How long the client must wait before its next request."""

    def admits(self, changes: int) -> bool:
        """Take the quota for a topic with this many partition changes."""
        if self._bucket is None:
            return True
        now_ms = self._clock.monotonic_ms()
        wait_ms = self._bucket.wait_ms(now_ms)
        if self._strict and wait_ms > 0:
            self.throttle_ms = max(self.throttle_ms, wait_ms)
            return False
        self._bucket.take(changes, now_ms)
        if not self._strict:
            self.throttle_ms = self._bucket.wait_ms(now_ms)
        return True

    def give_back(self, changes: int) -> None:
        """The controller did not make the changes."""
        if self._bucket is not None:
            self._bucket.take(-changes, self._clock.monotonic_ms())

    def error(self) -> KafkaError:
        return KafkaError(
            ErrorCode.THROTTLING_QUOTA_EXCEEDED,
            "The quota controller_mutation_rate of this client is exceeded. Retry after the throttle time",
        )
