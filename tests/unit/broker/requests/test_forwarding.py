from __future__ import annotations

import ipaddress

import pytest

from ruslo.broker.requests.context import RequestContext
from ruslo.broker.requests.forwarding import envelope, envelope_response, open_envelope, open_response
from ruslo.model.errors import ProtocolError
from ruslo.model.principals import Principal
from ruslo.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from ruslo.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from ruslo.protocol.messages.envelope_request import EnvelopeRequest

REQUEST = CreateTopicsRequest(
    topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)], timeout_ms=100
)


@pytest.mark.parametrize("version", range(2, 8))
def test_an_envelope_keeps_the_request_and_its_principal(version: int) -> None:
    alice = Principal("User", "alice", token_authenticated=True)
    context = RequestContext(api_version=version, client_id="app", peer_host="10.0.0.7", principal=alice)
    sealed = envelope(REQUEST, context)
    received = EnvelopeRequest.from_bytes(sealed.to_bytes(0), 0)
    header, message, principal = open_envelope(received)
    assert (header.api_key, header.api_version, header.client_id) == (REQUEST.API_KEY, version, "app")
    assert message == REQUEST
    assert principal == alice
    assert bytes(received.client_host_address) == ipaddress.ip_address("10.0.0.7").packed

    response = CreateTopicsResponse(topics=[CreatableTopicResult(name="t", error_message=None)])
    opened = open_response(REQUEST, version, envelope_response(header, response))
    assert isinstance(opened, CreateTopicsResponse)
    assert [topic.name for topic in opened.topics] == ["t"]


def test_ipv6_address() -> None:
    sealed = envelope(REQUEST, RequestContext(api_version=7, peer_host="::1"))
    assert len(sealed.client_host_address) == 16


def test_invalid_envelopes_are_rejected() -> None:
    for data in (b"", b"\x00\x13", b"\x00\x13\x00\x63" + bytes(20)):
        with pytest.raises(ProtocolError):
            open_envelope(EnvelopeRequest(request_data=data, request_principal=b"\x00\x00"))
