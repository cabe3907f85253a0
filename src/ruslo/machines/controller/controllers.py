"""ControllerRegistration (KIP-919): the endpoints and supported features of controllers."""

from __future__ import annotations

from ruslo.machines.controller.broker_image import endpoint_structs, feature_ranges, feature_structs
from ruslo.machines.controller.records import CONTROLLER_REGISTRATION_SUPPORTED
from ruslo.machines.controller.state import ControllerState, Decision
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.messages.controller_registration_request import ControllerRegistrationRequest
from ruslo.protocol.messages.controller_registration_response import ControllerRegistrationResponse
from ruslo.protocol.messages.register_controller_record import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
)


def register_controller(
    state: ControllerState, request: ControllerRegistrationRequest
) -> Decision[ControllerRegistrationResponse]:
    if state.metadata_version < CONTROLLER_REGISTRATION_SUPPORTED:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "The cluster's metadata.version does not support the registration of controllers",
        )
    known = state.image.cluster.controllers.get(request.controller_id)
    if known is not None and known.incarnation_id == request.incarnation_id:
        return [], ControllerRegistrationResponse(error_message=None)
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        zk_migration_ready=request.zk_migration_ready,
        end_points=endpoint_structs(ControllerEndpoint, request.listeners),
        features=feature_structs(ControllerFeature, feature_ranges(request.features)),
    )
    return [(record, 0)], ControllerRegistrationResponse(error_message=None)
