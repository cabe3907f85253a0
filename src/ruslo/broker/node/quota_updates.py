"""Follows the quotas in the metadata.

The quota of an IP entity may name a host (KIP-612). As in Apache Kafka each broker looks up its addresses
when quotas change; until then the quota has no effect.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ruslo.broker.scheduling.background_tasks import BackgroundTasks
from ruslo.machines.controller.delta import MetadataDelta
from ruslo.machines.controller.image import MetadataImage
from ruslo.machines.quota import IP, ClientQuotas, Entity
from ruslo.net.host_lookup import is_address, look_up

logger = logging.getLogger(__name__)

LOOKUP_TIMEOUT_S = 30.0


class QuotaUpdates:
    def __init__(self, quotas: ClientQuotas) -> None:
        self._quotas = quotas
        self._lookup = BackgroundTasks()

    def on_metadata_change(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if not delta.changed_quotas:
            return
        quotas = {
            entity: {key: record.value for key, record in values.items()}
            for entity, values in image.security.quotas.items()
        }
        self._quotas.replace(quotas)
        for task in self._lookup:
            task.cancel()
        names = [name for entity in quotas if (name := _host_name(entity)) is not None]
        if names:
            self._lookup.start(self._replace_names(quotas, names))

    async def stop(self) -> None:
        await self._lookup.stop()

    async def _replace_names(self, quotas: Mapping[Entity, Mapping[str, float]], names: list[str]) -> None:
        addresses = await look_up(names, LOOKUP_TIMEOUT_S)
        unknown = [name for name in names if not addresses[name]]
        if unknown:
            logger.warning(
                "The connection quota of %s has no effect: the name has no address. Check the resolver of "
                "this host, then set the quota again",
                ", ".join(unknown),
            )
        by_address: dict[Entity, Mapping[str, float]] = {}
        for entity, values in quotas.items():
            name = _host_name(entity)
            for address in () if name is None else addresses[name]:
                by_address[((IP, address),)] = values
        # A quota that names the address itself wins.
        self._quotas.replace({**by_address, **quotas})


def _host_name(entity: Entity) -> str | None:
    kind, name = entity[0]
    return name if kind == IP and name is not None and not is_address(name) else None
