"""The authorizer of a node, from its properties."""

from __future__ import annotations

import logging
from collections.abc import Callable

from ruslo.broker.metadata.loader import MetadataLoader
from ruslo.broker.security.audit_log import AuditLog
from ruslo.broker.security.authorization import Authorization
from ruslo.config.broker import BrokerConfig
from ruslo.machines.authorizer import Authorizer
from ruslo.machines.controller.delta import MetadataDelta
from ruslo.machines.controller.image import MetadataImage

logger = logging.getLogger(__name__)


def authorization_of(
    config: BrokerConfig, audit: AuditLog, metadata: MetadataLoader, fail: Callable[[str], None]
) -> Authorization | None:
    """None without ``authorizer.class.name``: everything is allowed, as in Kafka."""
    if not config.str("authorizer.class.name"):
        metadata.subscribe(_AclWarning().on_metadata_change)
        return None
    authorizer = Authorizer(
        config.super_users,
        allow_everyone_if_no_acl_found=config.bool("allow.everyone.if.no.acl.found"),
    )
    authorization = Authorization(authorizer, audit, fail)
    metadata.subscribe(authorization.on_metadata_change)
    return authorization


class _AclWarning:
    """Warns once that ACLs exist which this node does not apply."""

    def __init__(self) -> None:
        self._warned = False

    def on_metadata_change(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if image.security.acls and not self._warned:
            self._warned = True
            logger.warning(
                "the cluster has %d ACLs, but authorizer.class.name is not set: every client may do "
                "everything",
                len(image.security.acls),
            )
