"""A metadata image equals that of its snapshot; snapshots have Kafka's record order and versions."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ruslo.machines.controller.delta import MetadataDelta
from ruslo.machines.controller.image import MetadataImage
from ruslo.machines.controller.topic_image import PartitionImage
from ruslo.model.errors import CorruptLogError, ProtocolError
from ruslo.model.ids import MIGRATING_DIR, UNASSIGNED_DIR, Uuid
from ruslo.protocol.message import Message
from ruslo.protocol.messages.access_control_entry_record import AccessControlEntryRecord
from ruslo.protocol.messages.api_versions_request import ApiVersionsRequest
from ruslo.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from ruslo.protocol.messages.clear_elr_record import ClearElrRecord
from ruslo.protocol.messages.client_quota_record import ClientQuotaRecord, EntityData
from ruslo.protocol.messages.config_record import ConfigRecord
from ruslo.protocol.messages.delegation_token_record import DelegationTokenRecord
from ruslo.protocol.messages.feature_level_record import FeatureLevelRecord
from ruslo.protocol.messages.fence_broker_record import FenceBrokerRecord
from ruslo.protocol.messages.partition_change_record import PartitionChangeRecord
from ruslo.protocol.messages.partition_record import PartitionRecord
from ruslo.protocol.messages.producer_ids_record import ProducerIdsRecord
from ruslo.protocol.messages.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from ruslo.protocol.messages.register_controller_record import RegisterControllerRecord
from ruslo.protocol.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from ruslo.protocol.messages.remove_delegation_token_record import RemoveDelegationTokenRecord
from ruslo.protocol.messages.remove_topic_record import RemoveTopicRecord
from ruslo.protocol.messages.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from ruslo.protocol.messages.topic_record import TopicRecord
from ruslo.protocol.messages.unfence_broker_record import UnfenceBrokerRecord
from ruslo.protocol.messages.unregister_broker_record import UnregisterBrokerRecord
from ruslo.protocol.messages.user_scram_credential_record import UserScramCredentialRecord
from tests.support.machines.controller_bench import numbered_uuid, replayed


def broker(broker_id: int, epoch: int = 5, **fields: Any) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker_id,
        broker_epoch=epoch,
        incarnation_id=numbered_uuid(broker_id),
        end_points=[BrokerEndpoint(name="PLAINTEXT", host="h", port=9092, security_protocol=0)],
        features=[BrokerFeature(name="metadata.version", min_supported_version=7, max_supported_version=30)],
        rack=None,
        log_dirs=[numbered_uuid(100 * broker_id)],
        **fields,
    )


def partition(topic: int, index: int, **fields: Any) -> PartitionRecord:
    values: dict[str, Any] = {
        "replicas": [1, 2],
        "isr": [1, 2],
        "leader": 1,
        "leader_epoch": 0,
        "partition_epoch": 0,
    }
    values["directories"] = [numbered_uuid(100), UNASSIGNED_DIR]
    return PartitionRecord(topic_id=numbered_uuid(topic), partition_id=index, **(values | fields))


def all_record_types() -> list[Message]:
    return [
        ClientQuotaRecord(entity=[EntityData(entity_type="user", entity_name=None)], key="rate", value=1.5),
        FeatureLevelRecord(name="group.version", feature_level=1),
        DelegationTokenRecord(token_id="token", owner="User:o", requester="User:o", renewers=["User:r"]),
        UserScramCredentialRecord(
            name="u", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
        ),
        AccessControlEntryRecord(id=numbered_uuid(7), resource_name="t", principal="User:u", host="*"),
        ProducerIdsRecord(broker_id=1, broker_epoch=5, next_producer_id=3000),
        ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="1"),
        TopicRecord(name="t", topic_id=numbered_uuid(1)),
        partition(1, 0),
        partition(1, 1, isr=[], leader=-1, eligible_leader_replicas=[1], last_known_elr=[1]),
        RegisterControllerRecord(controller_id=3, incarnation_id=numbered_uuid(9)),
        broker(1),
        FeatureLevelRecord(name="metadata.version", feature_level=30),
    ]


def image_of(records: list[Message]) -> MetadataImage:
    image = MetadataImage()
    for record in records:
        image.replay(record)
    return image


def components(image: MetadataImage) -> tuple[object, ...]:
    security = image.security
    return (
        image.features.finalized,
        image.cluster.brokers,
        image.cluster.controllers,
        image.topics.by_id,
        image.topics.by_name,
        image.topics.partition_count,
        image.topics.collision_names,
        image.configs.by_resource,
        image.next_producer_id,
        (security.quotas, security.acls, security.scram_credentials, security.tokens),
    )


def test_snapshot_order() -> None:
    assert [
        (type(record).__name__.removesuffix("Record"), version)
        for record, version in image_of(all_record_types()).to_records()
    ] == [
        ("FeatureLevel", 0),
        ("FeatureLevel", 0),
        ("RegisterBroker", 4),
        ("RegisterController", 0),
        ("Topic", 0),
        ("Partition", 2),
        ("Partition", 2),
        ("Config", 0),
        ("ClientQuota", 0),
        ("ProducerIds", 0),
        ("AccessControlEntry", 0),
        ("UserScramCredential", 0),
        ("DelegationToken", 0),
    ]
    first, _ = next(image_of(all_record_types()).to_records())
    assert first == FeatureLevelRecord(name="metadata.version", feature_level=30)


def test_all_components_survive_a_snapshot() -> None:
    image = image_of(all_record_types())
    assert components(replayed(image.to_records())) == components(image)


@pytest.mark.parametrize(
    ("metadata_version", "broker_version", "partition_version"),
    [(7, 1, 0), (8, 2, 0), (17, 3, 1), (23, 3, 2), (30, 4, 2)],
)
def test_record_versions(metadata_version: int, broker_version: int, partition_version: int) -> None:
    records = list(image_of(all_record_types()).to_records(metadata_version))
    versions = {type(record).__name__: version for record, version in records}
    assert versions["RegisterBrokerRecord"] == broker_version
    assert versions["PartitionRecord"] == partition_version
    assert ("RegisterControllerRecord" in versions) == (metadata_version >= 15)
    assert replayed(records).features.metadata_version == metadata_version


def test_partitions_in_any_order() -> None:
    image = image_of(
        [TopicRecord(name="t", topic_id=numbered_uuid(1)), partition(1, 2), partition(1, 0), partition(1, 1)]
    )
    assert [each.replicas for each in image.topics.by_name["t"].partitions] == [(1, 2)] * 3
    assert image.topics.partition_count == 3


def test_partition_record_without_directories() -> None:
    old = PartitionRecord.from_bytes(partition(1, 0, directories=[]).to_bytes(0), 0)
    image = image_of([TopicRecord(name="t", topic_id=numbered_uuid(1)), old])
    assert image.topics.by_name["t"].partitions[0].directories == (MIGRATING_DIR, MIGRATING_DIR)


def test_partition_change_updates_only_the_named_fields() -> None:
    image = image_of([TopicRecord(name="t", topic_id=numbered_uuid(1)), partition(1, 0)])
    image.replay(PartitionChangeRecord(topic_id=numbered_uuid(1), partition_id=0, isr=[1]))
    assert image.topics.partition(numbered_uuid(1), 0) == PartitionImage(
        leader=1,
        leader_epoch=0,
        partition_epoch=1,
        replicas=(1, 2),
        isr=(1,),
        directories=(numbered_uuid(100), UNASSIGNED_DIR),
    )
    image.replay(PartitionChangeRecord(topic_id=numbered_uuid(1), partition_id=0, leader=1, replicas=[3, 1]))
    moved = image.topics.by_name["t"].partitions[0]
    assert (moved.leader, moved.leader_epoch, moved.partition_epoch) == (1, 1, 2)
    assert moved.directories == (UNASSIGNED_DIR, numbered_uuid(100)), "a replica keeps its directory"


def test_clear_elr_of_all_topics() -> None:
    image = image_of(all_record_types())
    image.replay(ClearElrRecord(topic_name=""))
    first, second = image.topics.by_name["t"].partitions
    assert (second.elr, second.last_known_elr, second.partition_epoch) == ((), (), 1)
    assert first.partition_epoch == 0


def test_removals() -> None:
    image = image_of(all_record_types())
    for record in (
        RemoveTopicRecord(topic_id=numbered_uuid(1)),
        ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value=None),
        ClientQuotaRecord(entity=[EntityData(entity_type="user", entity_name=None)], key="rate", remove=True),
        RemoveAccessControlEntryRecord(id=numbered_uuid(7)),
        RemoveUserScramCredentialRecord(name="u", mechanism=1),
        RemoveDelegationTokenRecord(token_id="token"),
        UnregisterBrokerRecord(broker_id=1, broker_epoch=5),
        FeatureLevelRecord(name="group.version", feature_level=0),
    ):
        image.replay(record)
    assert [type(record).__name__ for record, _ in image.to_records()] == [
        "FeatureLevelRecord",
        "RegisterControllerRecord",
        "ProducerIdsRecord",
    ]


def test_fencing_by_old_and_new_records() -> None:
    image = image_of([broker(1)])
    states = []
    for record in (
        UnfenceBrokerRecord(id=1, epoch=5),
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, in_controlled_shutdown=1),
        FenceBrokerRecord(id=1, epoch=5),
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, log_dirs=[numbered_uuid(8)]),
    ):
        image.replay(record)
        registered = image.cluster.brokers[1]
        states.append((registered.active, registered.fenced, registered.in_controlled_shutdown))
    assert states == [(True, False, False), (False, False, True), (False, True, True), (False, True, True)]
    assert image.cluster.brokers[1].log_dirs == (numbered_uuid(8),)


@pytest.mark.parametrize(
    "record",
    [
        partition(2, 0),
        PartitionChangeRecord(topic_id=numbered_uuid(2), partition_id=0),
        PartitionChangeRecord(topic_id=numbered_uuid(1), partition_id=7),
        RemoveTopicRecord(topic_id=numbered_uuid(2)),
        TopicRecord(name="t", topic_id=numbered_uuid(2)),
        ClearElrRecord(topic_name="nowhere"),
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=4),
        UnregisterBrokerRecord(broker_id=9, broker_epoch=5),
    ],
    ids=lambda record: type(record).__name__,
)
def test_contradictory_log_is_corrupt(record: Message) -> None:
    image = image_of(all_record_types())
    with pytest.raises(CorruptLogError, match="metadata log"):
        image.replay(record)


def test_unknown_record_stops_the_replay() -> None:
    with pytest.raises(ProtocolError, match="newer"):
        MetadataImage().replay(ApiVersionsRequest())


def test_delta_lists_the_changes() -> None:
    image, delta = image_of(all_record_types()), MetadataDelta()
    before = image.topics.by_name["t"].partitions[0]
    for record in (
        PartitionChangeRecord(topic_id=numbered_uuid(1), partition_id=0, isr=[1]),
        PartitionChangeRecord(topic_id=numbered_uuid(1), partition_id=0, leader=2),
        partition(1, 2),
        TopicRecord(name="new", topic_id=numbered_uuid(2)),
        partition(2, 0),
        TopicRecord(name="brief", topic_id=numbered_uuid(3)),
        RemoveTopicRecord(topic_id=numbered_uuid(3)),
        ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="1"),
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, fenced=-1),
    ):
        image.replay(record, delta)
    assert delta.changed_partitions == {numbered_uuid(1): {0: before, 2: None}}
    assert delta.created_topics == {numbered_uuid(2): image.topics.by_name["new"]}
    assert delta.deleted_topics == {}
    assert delta.changed_configs == {(2, "t")}
    assert delta.changed_brokers.keys() == {1}
    assert not MetadataDelta()


def topic_ids() -> st.SearchStrategy[Uuid]:
    return st.integers(1, 4).map(numbered_uuid)


brokers_of_a_partition = st.lists(st.integers(1, 4), min_size=1, max_size=3, unique=True)
changes = st.one_of(
    st.builds(lambda n: TopicRecord(name=f"topic.{n}", topic_id=numbered_uuid(n)), st.integers(1, 4)),
    st.builds(lambda n: RemoveTopicRecord(topic_id=n), topic_ids()),
    st.builds(
        lambda n, index, replicas: partition(
            n,
            index,
            replicas=replicas,
            isr=replicas,
            leader=replicas[0],
            directories=[UNASSIGNED_DIR] * len(replicas),
        ),
        st.integers(1, 4),
        st.integers(0, 3),
        brokers_of_a_partition,
    ),
    st.builds(
        lambda n, index, isr, leader, elr: PartitionChangeRecord(
            topic_id=n, partition_id=index, isr=isr, leader=leader, eligible_leader_replicas=elr
        ),
        topic_ids(),
        st.integers(0, 3),
        st.none() | brokers_of_a_partition,
        st.integers(-2, 4),
        st.none() | st.lists(st.integers(1, 4), max_size=2),
    ),
    st.builds(lambda n, epoch: broker(n, epoch), st.integers(1, 4), st.integers(1, 2)),
    st.builds(
        lambda n, fenced: BrokerRegistrationChangeRecord(broker_id=n, broker_epoch=1, fenced=fenced),
        st.integers(1, 4),
        st.sampled_from([-1, 0, 1]),
    ),
    st.builds(
        lambda kind, name, key, value: ConfigRecord(
            resource_type=kind, resource_name=name, name=key, value=value
        ),
        st.sampled_from([2, 4, 32]),
        st.sampled_from(["", "1", "topic.1"]),
        st.sampled_from(["a", "b"]),
        st.none() | st.sampled_from(["1", "2"]),
    ),
    st.builds(
        lambda level: FeatureLevelRecord(name="transaction.version", feature_level=level), st.integers(0, 2)
    ),
    st.just(ClearElrRecord(topic_name="")),
    st.builds(lambda n: ProducerIdsRecord(broker_id=1, next_producer_id=n), st.integers(0, 9000)),
)


@settings(max_examples=150)
@given(st.lists(changes, max_size=40), st.integers(0, 40))
def test_snapshot_and_delta_after_any_history(history: list[Message], split_at: int) -> None:
    image = image_of([FeatureLevelRecord(name="metadata.version", feature_level=30)])
    middle, delta = replayed(image.to_records()), MetadataDelta()
    removed: set[Uuid] = set()
    for position, record in enumerate(history):
        if position == split_at:
            middle, delta = replayed(image.to_records()), MetadataDelta()
        if isinstance(record, RemoveTopicRecord):
            removed.add(record.topic_id)
        elif isinstance(record, TopicRecord) and record.topic_id in removed:
            continue  # Topic ids are never reused.
        try:
            image.replay(record, delta)
        except CorruptLogError:
            continue  # A log never holds it. The assertions below check that the image did not change.
    again = replayed(image.to_records())
    assert components(again) == components(image)
    between = MetadataDelta.between(middle, image)
    assert between.created_topics.keys() == delta.created_topics.keys()
    assert between.deleted_topics.keys() == delta.deleted_topics.keys()
    # Only the replayed delta lists values that changed and then changed back.
    assert between.changed_configs <= delta.changed_configs
    assert between.changed_brokers.keys() <= delta.changed_brokers.keys()
    assert between.changed_partitions.keys() <= delta.changed_partitions.keys()
    assert between.changed_features <= delta.changed_features


@settings(max_examples=100)
@given(st.lists(changes, max_size=30), st.lists(changes, max_size=30))
def test_copy_is_independent(before: list[Message], after: list[Message]) -> None:
    image = image_of([FeatureLevelRecord(name="metadata.version", feature_level=30)])
    _replay_valid_records(image, before)
    copy, kept = image.copy(), replayed(image.to_records())
    assert components(copy) == components(image)
    _replay_valid_records(copy, after)
    assert components(image) == components(kept), "a change of the copy leaves the original alone"
    _replay_valid_records(image, after)
    assert components(copy) == components(image)


def _replay_valid_records(image: MetadataImage, history: list[Message]) -> None:
    for record in history:
        with suppress(CorruptLogError):
            image.replay(record)
