"""ApiVersions v0-5: the APIs of this listener, and the supported and finalized features.

- v3 is flexible, but its response header never is, so that any client can read it (KIP-511). The client sends
  its software name and version; invalid ones are INVALID_REQUEST (KIP-511).
- v3 adds the features (KIP-584), without those whose range starts at 0, which its readers reject; v4 has them
  all (KIP-1022).
- v5: the client may name the cluster and the node that it expects. A node that is another one responds with
  REBOOTSTRAP_REQUIRED, so that a misrouted client looks for its cluster again (KIP-1242).
- The APIs of client telemetry are announced only while there is a subscription, so that clients of a cluster
  without one do not ask for it (KIP-714: a broker without a receiver does not announce them).
- ``dispatch`` responds to an unknown version with v0.
- A client that has chosen a SASL mechanism must authenticate next: ILLEGAL_SASL_STATE, and the connection is
  closed.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable
from functools import cache
from typing import Final

from ruslo.broker.handlers.services import NodeServices
from ruslo.broker.requests.context import RequestContext
from ruslo.machines.controller.broker_image import FeatureRange
from ruslo.machines.controller.feature_image import KRAFT_VERSION
from ruslo.machines.controller.features import supported_features
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.net.connection import Connection
from ruslo.protocol.apis import Api
from ruslo.protocol.messages.api_versions_request import ApiVersionsRequest
from ruslo.protocol.messages.api_versions_response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

_NO_NODE: Final = -1
_TELEMETRY: Final = ("GetTelemetrySubscriptions", "PushTelemetry")
_MAX_SOFTWARE_CHARS: Final = 250
"""A connection keeps so much of the name and the version of its client's software, for telemetry."""
_SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(
    services: NodeServices, request: ApiVersionsRequest, context: RequestContext
) -> ApiVersionsResponse | Awaitable[ApiVersionsResponse]:
    connection = context.connection
    if connection is not None and connection.exchange is not None and connection.exchange.awaits_token:
        return _refuse(services, connection)
    if context.api_version >= 3:
        _check_software_name(request)
        if context.connection is not None:
            context.connection.client_software = (
                request.client_software_name[:_MAX_SOFTWARE_CHARS],
                request.client_software_version[:_MAX_SOFTWARE_CHARS],
            )
    if context.api_version >= 5:
        _check_destination(services, request.cluster_id, request.node_id)
    has_subscriptions = bool(services.metadata.image.configs.client_metrics)
    response = ApiVersionsResponse(api_keys=_api_keys(services.apis.announced, has_subscriptions))
    if context.api_version >= 3:
        response.supported_features = [
            SupportedFeatureKey(name=name, min_version=span.min_version, max_version=span.max_version)
            for name, span in _supported_features(services, context).items()
            if span.min_version > 0 or context.api_version >= 4
        ]
        image = services.metadata.image
        finalized = dict(image.features.finalized)
        if services.raft.kraft_version > 0:
            finalized[KRAFT_VERSION] = services.raft.kraft_version
        response.finalized_features_epoch = image.offset
        response.finalized_features = [
            FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
            for name, level in finalized.items()
        ]
    return response


def _supported_features(services: NodeServices, context: RequestContext) -> dict[str, FeatureRange]:
    """Controller listeners follow the switch of unstable API versions, as in Apache Kafka."""
    config = services.config
    kind = "api" if context.listener_name in config.controller_listener_names else "feature"
    return supported_features(unstable=config.bool(f"unstable.{kind}.versions.enable"))


async def _refuse(services: NodeServices, connection: Connection) -> ApiVersionsResponse:
    # In a task, as in `sasl_handshake`: the connection stays open until the response is sent.
    services.authentication.failed(connection, "ApiVersions was received after SaslHandshake")
    connection.finish()
    await asyncio.sleep(services.authentication.failure_delay_s)
    return ApiVersionsResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)


def _check_software_name(request: ApiVersionsRequest) -> None:
    for text in (request.client_software_name, request.client_software_version):
        if _SOFTWARE_NAME.fullmatch(text) is None:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Client software name or version {text!r} is invalid. Use letters, digits, '-' and '.', "
                "with a letter or digit at both ends",
            )


def _check_destination(services: NodeServices, cluster_id: str | None, node_id: int) -> None:
    if (cluster_id is None) != (node_id == _NO_NODE):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "ClusterId and NodeId must be set together. Set both fields or none"
        )
    if cluster_id is not None and (cluster_id, node_id) != (services.cluster_id, services.node_id):
        raise KafkaError(
            ErrorCode.REBOOTSTRAP_REQUIRED,
            f"The client expects node {node_id} of cluster {cluster_id}, and this is node {services.node_id} "
            f"of cluster {services.cluster_id}. Check the addresses between them",
        )


@cache
def _api_keys(apis: tuple[Api, ...], with_telemetry: bool) -> list[ApiVersion]:
    return [
        ApiVersion(
            api_key=api.key,
            # librdkafka compresses only if Produce is announced from version 0 on (KAFKA-18659).
            min_version=0 if api.name == "Produce" else api.min_version,
            max_version=api.max_version,
        )
        for api in apis
        if with_telemetry or api.name not in _TELEMETRY
    ]
