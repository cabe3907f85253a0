"""``format``: what it writes, and which directories and options it rejects."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import pytest

from ruslo.broker.node.format import QuorumOptions, format_storage, random_cluster_id
from ruslo.broker.node.identity import read_bootstrap_records
from ruslo.broker.quorum.checkpoint_file import read_checkpoint
from ruslo.config.broker import BrokerConfig
from ruslo.machines.raft.voters import Endpoint, Voter, VoterSet
from ruslo.model.errors import ConfigError, StorageError
from ruslo.model.ids import uuid_from_text, uuid_to_text
from ruslo.protocol.messages.feature_level_record import FeatureLevelRecord
from ruslo.protocol.messages.voters_record import VotersRecord
from ruslo.storage.dir_lock import DirLock
from ruslo.storage.local_disk import LocalDisk
from ruslo.storage.meta_properties import MetaProperties, read_meta_properties
from tests.support.brokers.metadata_log import MetadataNode, running

STANDALONE = QuorumOptions(standalone=True)
DEFAULT_FEATURES = {
    "metadata.version": 30,
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
}


def config(directory: Path, **changes: str | None) -> BrokerConfig:
    """Two log directories, dynamic voters. ``changes`` has underscores for dots; None removes a key."""
    properties: dict[str, str | None] = {
        "process.roles": "broker,controller",
        "node.id": "7",
        "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "localhost:9093",
        "log.dirs": f"{directory}/a,{directory}/b",
    }
    properties |= {name.replace("_", "."): value for name, value in changes.items()}
    return BrokerConfig.from_properties(
        {name: value for name, value in properties.items() if value is not None}
    )


def static_config(directory: Path) -> BrokerConfig:
    return config(
        directory, controller_quorum_voters="7@localhost:9093", controller_quorum_bootstrap_servers=None
    )


def meta(path: Path) -> MetaProperties:
    found = read_meta_properties(LocalDisk(str(path)))
    assert found is not None
    return found


def first_voters(path: Path) -> VoterSet:
    checkpoint = path / "__cluster_metadata-0" / "00000000000000000000-0000000000.checkpoint"
    assert stat.S_IMODE(checkpoint.stat().st_mode) == 0o400
    control = read_checkpoint(LocalDisk(str(path)), str(checkpoint)).control
    (record,) = (record for record in control if isinstance(record, VotersRecord))
    return VoterSet.from_record(record)


def bootstrap_features(path: Path) -> dict[str, int]:
    records = read_bootstrap_records(LocalDisk(str(path)))
    assert all(isinstance(record, FeatureLevelRecord) for record in records)
    return {record.name: record.feature_level for record in records if isinstance(record, FeatureLevelRecord)}


def files(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


def test_standalone(tmp_path: Path) -> None:
    result = format_storage(config(tmp_path), quorum=STANDALONE)
    a, b = tmp_path / "a", tmp_path / "b"
    assert files(tmp_path) == [
        "a/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint",
        "a/bootstrap.checkpoint",
        "a/meta.properties",
        "b/bootstrap.checkpoint",
        "b/meta.properties",
    ]
    assert set(result.formatted) == {str(a), str(b)}
    assert result.features == DEFAULT_FEATURES
    assert meta(a).cluster_id == meta(b).cluster_id == result.cluster_id
    assert meta(a).node_id == 7
    assert meta(a).directory_id != meta(b).directory_id
    assert first_voters(a) == VoterSet(
        (Voter(7, meta(a).directory_id, (Endpoint("CONTROLLER", "localhost", 9093),)),)
    )
    assert bootstrap_features(a) == bootstrap_features(b) == DEFAULT_FEATURES
    assert next(iter(bootstrap_features(a))) == "metadata.version"


def test_standalone_node_leads_and_writes_its_voters_to_the_log(tmp_path: Path) -> None:
    format_storage(config(tmp_path), quorum=STANDALONE)
    directory = tmp_path / "a"
    overrides = {
        "node.id": "7",
        "controller.quorum.voters": "",
        "controller.quorum.bootstrap.servers": "localhost:9093",
    }

    async def start_twice() -> None:
        for epoch in (1, 2):
            node = MetadataNode(directory, overrides, directory_id=meta(directory).directory_id)
            async with running(node):
                assert node.driver.kraft_version == 1
                assert node.driver.epoch == epoch
                # The first start writes LeaderChange, KRaftVersion and Voters; later ones write only
                # LeaderChange.
                assert node.driver.end_offset == (3 if epoch == 1 else 4)
                assert [voter.node_id for voter in node.driver.voters.voters] == [7]
        unknown = MetadataNode(directory, overrides, directory_id=bytes(range(16, 32)))
        with pytest.raises(ConfigError, match=r"meta.properties has directory.id=\S+, but node 7 is a voter"):
            await unknown.start()
        await unknown.driver.stop()

    asyncio.run(start_twice())
    quorum_state = (directory / "__cluster_metadata-0" / "quorum-state").read_text()
    assert quorum_state == (
        '{"leaderId":7,"leaderEpoch":2,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA",'
        '"data_version":1}'
    )


def test_static_voters_need_no_checkpoint(tmp_path: Path) -> None:
    format_storage(static_config(tmp_path), cluster_id="my-cluster")
    assert files(tmp_path) == [
        "a/bootstrap.checkpoint",
        "a/meta.properties",
        "b/bootstrap.checkpoint",
        "b/meta.properties",
    ]
    assert meta(tmp_path / "b").cluster_id == "my-cluster"


def test_separate_metadata_directory(tmp_path: Path) -> None:
    format_storage(config(tmp_path, metadata_log_dir=str(tmp_path / "m")), quorum=STANDALONE)
    assert first_voters(tmp_path / "m").voters[0].directory_id == meta(tmp_path / "m").directory_id
    assert not (tmp_path / "a" / "__cluster_metadata-0").exists()


def test_initial_controllers_name_the_directory_ids(tmp_path: Path) -> None:
    own, other = random_cluster_id(), random_cluster_id()
    listed = f"7@localhost:9093:{own},8@[::1]:9094:{other}"
    format_storage(config(tmp_path), quorum=QuorumOptions(initial_controllers=listed))
    assert uuid_to_text(meta(tmp_path / "a").directory_id) == own
    assert first_voters(tmp_path / "a").voters == (
        Voter(7, uuid_from_text(own), (Endpoint("CONTROLLER", "localhost", 9093),)),
        Voter(8, uuid_from_text(other), (Endpoint("CONTROLLER", "::1", 9094),)),
    )


def test_no_initial_controllers(tmp_path: Path) -> None:
    format_storage(config(tmp_path), quorum=QuorumOptions(no_initial_controllers=True))
    assert not (tmp_path / "a" / "__cluster_metadata-0").exists()


def test_formatting_again(tmp_path: Path) -> None:
    first = format_storage(config(tmp_path, log_dirs=f"{tmp_path}/a"), quorum=STANDALONE)
    with pytest.raises(StorageError, match="--ignore-formatted"):
        format_storage(config(tmp_path), quorum=STANDALONE)
    with pytest.raises(StorageError, match="belongs to cluster"):
        format_storage(config(tmp_path), quorum=STANDALONE, cluster_id="other", ignore_formatted=True)
    with pytest.raises(StorageError, match="belongs to node 7"):
        format_storage(config(tmp_path, node_id="8"), quorum=STANDALONE, ignore_formatted=True)
    assert files(tmp_path / "b") == []
    before = meta(tmp_path / "a")
    again = format_storage(config(tmp_path), quorum=STANDALONE, ignore_formatted=True)
    assert again.cluster_id == first.cluster_id
    assert again.already_formatted == (f"{tmp_path}/a",)
    assert again.formatted == (f"{tmp_path}/b",)
    assert meta(tmp_path / "a") == before


def test_metadata_log_without_meta_properties_is_not_formatted(tmp_path: Path) -> None:
    directory = tmp_path / "a" / "__cluster_metadata-0"
    directory.mkdir(parents=True)
    (directory / "00000000000000000000.log").write_bytes(b"something")
    with pytest.raises(StorageError, match=r"Restore meta\.properties"):
        format_storage(config(tmp_path), quorum=STANDALONE)
    assert files(tmp_path) == ["a/__cluster_metadata-0/00000000000000000000.log"]


def test_directory_in_use_is_not_formatted(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    lock = DirLock(LocalDisk(str(tmp_path / "b")))
    with pytest.raises(StorageError, match="is in use"):
        format_storage(config(tmp_path), quorum=STANDALONE)
    lock.release(remove=True)
    assert files(tmp_path) == []


@pytest.mark.parametrize(
    ("changes", "options", "problem"),
    [
        ({}, QuorumOptions(), "Give the voters"),
        ({}, QuorumOptions(standalone=True, no_initial_controllers=True), "Give only one of"),
        ({"controller_quorum_voters": "7@localhost:9093"}, STANDALONE, "already contains the voters"),
        ({}, QuorumOptions(initial_controllers=f"8@a:1:{random_cluster_id()}"), "does not contain node 7"),
        ({}, QuorumOptions(initial_controllers="7@localhost"), "id@host:port:directory-id"),
        ({}, QuorumOptions(initial_controllers="7@localhost:9093:short"), "22 characters"),
        (
            {"process_roles": "broker", "listeners": "PLAINTEXT://localhost:9092"},
            STANDALONE,
            "Only a controller can vote",
        ),
    ],
)
def test_conflicting_options_are_rejected(
    tmp_path: Path, changes: dict[str, str], options: QuorumOptions, problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        format_storage(config(tmp_path, **changes), quorum=options)
    assert files(tmp_path) == []


def test_cluster_id_with_spaces_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not a valid cluster id"):
        format_storage(config(tmp_path), quorum=STANDALONE, cluster_id="a b")
