"""Which requests may be pipelined."""

from __future__ import annotations

from ruslo.broker.controller.gateway import _LIFECYCLE_REQUESTS
from ruslo.broker.dispatch.api_table import CONTROLLER_HANDLERS, HANDLERS, PIPELINES, controller_apis
from ruslo.protocol.apis import API_BY_KEY, API_BY_NAME


def test_pipelines_contain_supported_apis() -> None:
    assert PIPELINES.keys() <= HANDLERS.keys() | CONTROLLER_HANDLERS.keys() | {"Produce"}


def test_requests_of_a_broker_to_the_controller_are_one_pipeline() -> None:
    """They share a connection: a heartbeat must not wait until an ISR change is committed."""
    own = {API_BY_KEY[request.API_KEY].name for request in _LIFECYCLE_REQUESTS}
    assert {PIPELINES.get(name) for name in own} == {"housekeeping"}
    assert {controller_apis()[API_BY_NAME[name].key].pipeline for name in own} == {"housekeeping"}


def test_reads_wait_for_earlier_requests() -> None:
    for name in ("Fetch", "ListOffsets", "Metadata", "OffsetFetch", "JoinGroup", "SyncGroup", "Heartbeat"):
        assert name not in PIPELINES
