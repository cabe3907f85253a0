"""Every message in every version round-trips, and malformed bytes are rejected."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codegen.layout import default_value, ever_nullable, present_fields
from codegen.notation import Field, MessageSpec, StructSpec, load_messages
from ruslo.model.errors import ProtocolError
from ruslo.protocol.message import Message, Struct
from ruslo.protocol.messages.api_versions_response import ApiVersionsResponse
from ruslo.protocol.messages.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataValue,
)
from ruslo.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from ruslo.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from ruslo.protocol.messages.metadata_request import MetadataRequest
from ruslo.protocol.messages.partition_change_record import PartitionChangeRecord
from ruslo.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.protocol.values import (
    ValueMaker,
    all_messages,
    message_class,
    message_versions,
    struct_class,
    versions_of,
)

ALL_NAMES = sorted(all_messages())


def check_round_trip(value: Message, version: int) -> bytes:
    encoded = value.to_bytes(version)
    decoded = type(value).from_bytes(encoded, version)
    assert decoded == value
    assert decoded.to_bytes(version) == encoded
    return encoded


def test_the_tables_have_every_message() -> None:
    messages = load_messages()
    assert len(messages) == 284
    assert len(all_messages()) == 276
    assert len(list(message_versions())) == 742
    kinds = [message.kind for message in messages]
    assert (kinds.count("request"), kinds.count("response"), kinds.count("metadata")) == (95, 95, 26)


@pytest.mark.parametrize("name", ALL_NAMES)
def test_defaults_nulls_and_random_values_round_trip(name: str) -> None:
    message = all_messages()[name]
    for version in versions_of(message):
        maker = ValueMaker(message, version, random.Random(f"{name} {version}"))
        check_round_trip(message_class(name)(), version)
        check_round_trip(maker.nulls(), version)
        for _ in range(5):
            encoded = check_round_trip(maker.random(), version)
        check_other_buffers(message_class(name), encoded, version)
        check_prefixes_are_rejected(message_class(name), encoded, version)


def check_other_buffers(message: type[Message], encoded: bytes, version: int) -> None:
    """The same message in the middle of a bytearray and in a memoryview."""
    expected = message.from_bytes(encoded, version)
    framed = bytearray(b"head" + encoded + b"tail")
    assert message.read(framed, 4, version) == (expected, 4 + len(encoded))
    assert message.from_bytes(memoryview(framed)[4:-4], version) == expected


def check_prefixes_are_rejected(message: type[Message], encoded: bytes, version: int) -> None:
    for end in {0, 1, len(encoded) // 2, len(encoded) - 1}:
        if 0 <= end < len(encoded):
            with pytest.raises(ProtocolError):
                message.from_bytes(encoded[:end], version)
    with pytest.raises(ProtocolError, match="bytes too many"):
        message.from_bytes(encoded + b"\0", version)


@settings(max_examples=800, database=None, derandomize=True)
@given(pair=st.sampled_from(list(message_versions())), source=st.randoms(use_true_random=False))
def test_any_value_round_trips(pair: tuple[MessageSpec, int], source: random.Random) -> None:
    message, version = pair
    check_round_trip(ValueMaker(message, version, source).random(), version)


@pytest.mark.parametrize("name", ALL_NAMES)
def test_versions_outside_the_range_are_rejected(name: str) -> None:
    message = message_class(name)
    for version in (message.MIN_VERSION - 1, message.MAX_VERSION + 1, 32767):
        with pytest.raises(ProtocolError, match="has no version"):
            message().to_bytes(version)
        with pytest.raises(ProtocolError, match="has no version"):
            message.from_bytes(bytes(64), version)


def test_removed_apis_have_no_version() -> None:
    for message in load_messages():
        if message.versions.empty:
            for version in (-1, 0, 1):
                with pytest.raises(ProtocolError, match="removed"):
                    message_class(message.name).from_bytes(b"", version)


def other_than_default(message: MessageSpec, struct: StructSpec, field: Field) -> Any:
    """A value that is not the field's default."""
    default = default_value(field, struct.possible)
    if field.is_array:
        return (
            None
            if default == "[]" and ever_nullable(field, struct.possible)
            else [struct_class(message, field.struct)() if field.struct else "x"]
        )
    if field.struct is not None:
        value = struct_class(message, field.struct)()
        fields = present_fields(message.structs[field.struct])
        plain = next((each for each in fields if each.struct is None), None)
        if plain is None:
            setattr(value, fields[0].attribute, [struct_class(message, fields[0].struct or "")()])
        else:
            setattr(value, plain.attribute, 77 if plain.type.startswith("int") else "x")
        return value
    match field.type:
        case "bool":
            return default == "False"
        case "string":
            return "x"
        case "bytes" | "records":
            return b"x"
        case "uuid":
            return b"\x01" * 16
        case "float64":
            return 1.5
        case _:
            return int(default) ^ 1


def test_a_value_that_a_version_does_not_have_raises_unless_ignorable() -> None:
    rejected = dropped = 0
    for message, version in message_versions():
        for struct in message.all_structs():
            if version not in struct.possible:
                continue
            for field in present_fields(struct):
                if version in field.versions:
                    continue
                value: Struct = struct_class(message, struct.name)()
                expected = bytearray()
                value._write(expected, version)
                setattr(value, field.attribute, other_than_default(message, struct, field))
                out = bytearray()
                if field.ignorable:
                    value._write(out, version)
                    assert out == expected
                    dropped += 1
                else:
                    reason = f"{field.attribute}: version {version} has no such field"
                    with pytest.raises(ProtocolError, match=reason):
                        value._write(out, version)
                    rejected += 1
    assert rejected > 350
    assert dropped > 300


def test_null_raises_where_a_version_does_not_allow_it() -> None:
    rejected = 0
    for message, version in message_versions():
        for field in present_fields(message.root):
            if version not in field.versions or version in field.nullable or field.tag is not None:
                continue
            if field.type == "bool":
                continue  # null equals false
            value = message_class(message.name)()
            setattr(value, field.attribute, None)
            with pytest.raises(ProtocolError, match="cannot encode"):
                value.to_bytes(version)
            rejected += 1
    assert rejected > 1000


@pytest.mark.parametrize(
    "topic",
    [
        CreatableTopic(name="x" * 32768),
        CreatableTopic(name="\ud800"),
        CreatableTopic(num_partitions=2**31),
        CreatableTopic(replication_factor=-(2**15) - 1),
        CreatableTopic(num_partitions="3"),  # type: ignore[arg-type]
        CreatableTopic(assignments=None),  # type: ignore[arg-type]
    ],
)
@pytest.mark.parametrize("version", [4, 7])
def test_values_that_do_not_fit_leave_the_output_unchanged(topic: CreatableTopic, version: int) -> None:
    out = bytearray(b"before")
    with pytest.raises(ProtocolError, match="cannot encode"):
        CreateTopicsRequest(topics=[topic]).write(out, version)
    assert out == b"before"


def test_a_uuid_has_sixteen_bytes() -> None:
    request = FetchRequest(topics=[FetchTopic(topic_id=b"short")])
    with pytest.raises(ProtocolError, match="16 bytes"):
        request.to_bytes(13)
    with pytest.raises(ProtocolError, match="16 bytes"):
        PartitionChangeRecord(directories=[b"\0" * 17]).to_bytes(1)


def test_a_string_is_at_most_32767_bytes_in_every_version() -> None:
    for version in (4, 7):
        longest = CreateTopicsRequest(topics=[CreatableTopic(name="é" * 16383 + "x")])
        encoded = check_round_trip(longest, version)
        assert len(encoded) > 32767
    # The same with one byte more, written by hand in the compact form.
    body = b"\x02" + b"\x81\x80\x02" + b"x" * 32768 + bytes(20)
    with pytest.raises(ProtocolError, match="32768"):
        CreateTopicsRequest.from_bytes(body, 7)


def test_strings_must_be_utf8() -> None:
    encoded = CreateTopicsRequest(topics=[CreatableTopic(name="abc")]).to_bytes(7).replace(b"abc", b"a\xffc")
    with pytest.raises(ProtocolError, match="utf-8"):
        CreateTopicsRequest.from_bytes(encoded, 7)


def test_null_topics_mean_all_topics_from_version_1() -> None:
    assert MetadataRequest(topics=None).to_bytes(1) == b"\xff\xff\xff\xff"
    with pytest.raises(ProtocolError, match=r"topics: it must not be null in version 0"):
        MetadataRequest(topics=None).to_bytes(0)
    with pytest.raises(ProtocolError, match="null"):
        MetadataRequest.from_bytes(b"\xff\xff\xff\xff", 0)


def test_records_are_a_view_of_the_input() -> None:
    request = ProduceRequest(
        topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(records=b"payload")])]
    )
    frame = bytearray(request.to_bytes(9))
    records = ProduceRequest.from_bytes(frame, 9).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is frame
    frame[frame.index(b"payload")] = ord("P")
    assert bytes(records) == b"Payload"


def test_tagged_struct_has_its_own_null_marker() -> None:
    absent = ConsumerGroupMemberMetadataValue()
    null = ConsumerGroupMemberMetadataValue(classic_member_metadata=None)
    classic = ClassicMemberMetadata(session_timeout_ms=5)
    present = ConsumerGroupMemberMetadataValue(classic_member_metadata=classic)
    assert absent.to_bytes(0)[-1:] == b"\x00"
    assert null.to_bytes(0)[-4:] == b"\x01\x00\x01\x00"
    assert present.to_bytes(0)[-10:] == b"\x01\x00\x07\x01\x00\x00\x00\x05\x01\x00"
    for value in (absent, null, present):
        check_round_trip(value, 0)


def test_objects_compare_by_value_and_show_their_fields() -> None:
    topic = CreatableTopic(name="t", num_partitions=3)
    assert topic == CreatableTopic(name="t", num_partitions=3)
    assert topic != CreatableTopic(name="t", num_partitions=4)
    assert topic != "t"
    assert CreatableTopic(unknown_tags={}) == CreatableTopic()
    assert CreatableTopic(unknown_tags={7: b""}) != CreatableTopic()
    assert repr(topic) == (
        "CreatableTopic(name='t', num_partitions=3, replication_factor=0, assignments=[], configs=[])"
    )
    assert "unknown_tags={7: b''}" in repr(CreatableTopic(unknown_tags={7: b""}))
    assert CreatableTopic().configs is not CreatableTopic().configs
    with pytest.raises(AttributeError):
        topic.nmae = "typo"  # type: ignore[attr-defined]


class TestTags:
    """Tagged fields of ApiVersionsResponse version 4, whose last byte is their count when there are none."""

    bare = ApiVersionsResponse().to_bytes(4)[:-1]

    def read(self, tags: bytes) -> ApiVersionsResponse:
        return ApiVersionsResponse.from_bytes(self.bare + tags, 4)

    def test_unknown_tags_are_kept_and_written_back_in_order(self) -> None:
        tags = b"\x03" + b"\x01\x08\x00\x00\x00\x00\x00\x00\x00\x07" + b"\x09\x02ab" + b"\xc8\x01\x00"
        response = self.read(tags)
        assert response.finalized_features_epoch == 7
        assert response.unknown_tags == {9: b"ab", 200: b""}
        assert response.to_bytes(4) == self.bare + tags

    @pytest.mark.parametrize(
        ("tags", "reason"),
        [
            (b"\x02\x09\x00\x09\x00", "tag 9 after tag 9"),
            (b"\x02\x09\x00\x08\x00", "tag 8 after tag 9"),
            (b"\x02\x01\x08" + bytes(8) + b"\x01\x08" + bytes(8), "tag 1 after tag 1"),
            (b"\x01\x01\x07" + bytes(8), "declared 7 bytes, its value takes 8"),
            (b"\x01\x01\x09" + bytes(9), "declared 9 bytes, its value takes 8"),
            (b"\x01\x09\x05abc", "length 5 exceeds the 3 remaining bytes"),
            (b"\xff\xff\xff\xff\x0f\x09\x00", "index out of range"),
            (b"\x80\x80\x80\x80\x80\x01", "more than five bytes"),
            (b"\xff\xff\xff\xff\x7f", "does not fit 32 bits"),
        ],
    )
    def test_malformed_tags_are_rejected(self, tags: bytes, reason: str) -> None:
        with pytest.raises(ProtocolError, match=reason):
            self.read(tags)

    def test_known_tag_cannot_be_set_as_unknown(self) -> None:
        with pytest.raises(ProtocolError, match="known field"):
            ApiVersionsResponse(finalized_features_epoch=3, unknown_tags={1: b""}).to_bytes(4)

    def test_versions_before_tagged_fields_have_no_unknown_tags(self) -> None:
        with pytest.raises(ProtocolError, match="tagged fields of ApiVersionsResponse"):
            ApiVersionsResponse(unknown_tags={9: b""}).to_bytes(2)

    def test_a_known_tag_of_a_later_version_is_rejected(self) -> None:
        partition = FetchPartition(unknown_tags={1: bytes(8)})
        encoded = FetchRequest(topics=[FetchTopic(partitions=[partition])]).to_bytes(16)
        with pytest.raises(ProtocolError, match="tag 1 is not valid in version 16"):
            FetchRequest.from_bytes(encoded, 16)
