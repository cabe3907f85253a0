from __future__ import annotations

import pytest

from ruslo.model.errors import ProtocolError
from ruslo.protocol.apis import API_BY_KEY, API_BY_NAME
from ruslo.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ruslo.protocol.modules import module_name
from tests.support.protocol.values import message_class


def test_there_are_95_apis_and_four_were_removed() -> None:
    assert sorted(API_BY_KEY) == list(range(95))
    assert [api.name for api in API_BY_KEY.values() if api.max_version < 0] == [
        "LeaderAndIsr",
        "StopReplica",
        "UpdateMetadata",
        "ControlledShutdown",
    ]
    assert len(API_BY_NAME) == 95


@pytest.mark.parametrize("name", sorted(API_BY_NAME))
def test_request_and_response_belong_to_their_api(name: str) -> None:
    api = API_BY_NAME[name]
    for suffix in ("Request", "Response"):
        message = message_class(name + suffix)
        assert api.key == message.API_KEY
        assert api.min_version == message.MIN_VERSION
        assert api.max_version <= message.MAX_VERSION
        assert api.flexible_from == message.FLEXIBLE_FROM


def test_an_unstable_version_has_a_codec_but_is_not_announced() -> None:
    api = API_BY_NAME["InitProducerId"]
    assert api.request is InitProducerIdRequest
    assert (api.max_version, api.request.MAX_VERSION) == (5, 6)
    others = [other for other in API_BY_KEY.values() if other is not api]
    assert all(other.max_version == message_class(f"{other.name}Request").MAX_VERSION for other in others)


def test_messages_that_are_only_in_the_tables_raise() -> None:
    with pytest.raises(ProtocolError, match="LeaderAndIsrRequest is not supported"):
        _ = API_BY_NAME["LeaderAndIsr"].request


def test_listeners_and_flags() -> None:
    assert API_BY_NAME["Produce"].listeners == ("broker",)
    assert API_BY_NAME["Vote"].listeners == ("controller",)
    assert API_BY_NAME["Fetch"].listeners == ("broker", "controller")
    assert API_BY_NAME["CreateTopics"].forwardable
    assert not API_BY_NAME["Produce"].forwardable
    assert API_BY_NAME["WriteTxnMarkers"].cluster_action


def test_module_names() -> None:
    assert module_name("CreateTopicsRequest") == "ruslo.protocol.messages.create_topics_request"
    assert module_name("KRaftVersionRecord") == "ruslo.protocol.messages.kraft_version_record"
