"""The options of a source that is a member of a share group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ruslo.machines.share_partition.states import AcknowledgeType
from ruslo.model.errors import ConfigError
from ruslo.pipeline.option_values import OptionValues
from ruslo.pipeline.source.subscription import Subscription

GROUP: Final = "share.group.id"
ON_FAILURE: Final = "share.on.failure"
NAMES: Final = (GROUP, ON_FAILURE)

_BY_THE_GROUP: Final = "share.auto.offset.reset of the group decides where to begin"
_RECORDS_ONLY: Final = "a share group limits records only; use maxOffsetsPerTrigger"
_REFUSED: Final = {
    "startingOffsets": _BY_THE_GROUP,
    "startingTimestamp": _BY_THE_GROUP,
    "startingOffsetsByTimestamp": _BY_THE_GROUP,
    "startingOffsetsByTimestampStrategy": _BY_THE_GROUP,
    "isolation": "share.isolation.level of the group decides which records it delivers",
    "scan": "tasks fetch the acquired records from the brokers",
    "maxBytesPerTrigger": _RECORDS_ONLY,
    "maxOffsetsPerTopic": _RECORDS_ONLY,
    "maxBytesPerTopic": _RECORDS_ONLY,
    "minOffsetsPerTrigger": _RECORDS_ONLY,
    "maxTriggerDelay": _RECORDS_ONLY,
    "group.id": "a share group has no offsets to publish; ruslo group describe shows its lag",
}


@dataclass(frozen=True, slots=True)
class ShareOptions:
    group_id: str
    on_failure: AcknowledgeType
    """What happens to the records of the last batch when the query stops: RELEASE or REJECT."""


def parse_share(
    values: OptionValues, subscription: Subscription, *, streaming: bool | None
) -> ShareOptions | None:
    """Raises ConfigError for options that a share group cannot have."""
    group_id = values.text(GROUP)
    if group_id is None:
        if ON_FAILURE in values:
            raise ConfigError(f"{ON_FAILURE} has no effect: set {GROUP} as well")
        return None
    if not group_id:
        raise ConfigError(f"{GROUP} is empty: name a share group")
    if streaming is False:
        raise ConfigError(
            f"{GROUP} is for streaming queries: use readStream, and trigger(availableNow=True) for a job"
        )
    if not subscription.topics:
        raise ConfigError(f"{GROUP} needs topics by name: set subscribe")
    for name, reason in _REFUSED.items():
        if name in values:
            raise ConfigError(f"{name} cannot be combined with {GROUP}: {reason}. Remove it")
    on_failure = values.choice(ON_FAILURE, ("release", "reject"), "release")
    return ShareOptions(group_id, AcknowledgeType[on_failure.upper()])
