"""Formats a node's directories, as ``kafka-storage format`` does; either system starts on the result.

Each directory gets ``bootstrap.checkpoint`` (the initial feature levels and users); the metadata log
directory also gets the checkpoint with the first voters if they are in the log (KIP-853).
``meta.properties`` comes last: a
directory has it only if it is complete, so an interrupted run can be repeated.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ruslo.broker.node.bootstrap_features import feature_records, initial_features
from ruslo.broker.node.identity import BOOTSTRAP_CHECKPOINT, all_directories
from ruslo.broker.quorum.checkpoint_file import write_checkpoint
from ruslo.broker.quorum.metadata_store import METADATA_PARTITION
from ruslo.broker.quorum.snapshot_store import SnapshotStore
from ruslo.config.broker import BrokerConfig
from ruslo.config.listeners import parse_host_port
from ruslo.machines.controller.feature_image import METADATA_VERSION
from ruslo.machines.controller.records import SCRAM_SUPPORTED, VersionedRecord
from ruslo.machines.raft.snapshots import SnapshotId
from ruslo.machines.raft.voters import Endpoint, Voter, VoterSet
from ruslo.model.clock import Clock, SystemClock
from ruslo.model.errors import ConfigError, StorageError
from ruslo.model.ids import Uuid, random_uuid, uuid_from_text, uuid_to_text
from ruslo.protocol.messages.kraft_version_record import KRaftVersionRecord
from ruslo.protocol.messages.user_scram_credential_record import UserScramCredentialRecord
from ruslo.storage.dir_lock import DirLock
from ruslo.storage.disk import Disk
from ruslo.storage.local_disk import LocalDisk
from ruslo.storage.meta_properties import MetaProperties, read_meta_properties, write_meta_properties

_BEFORE_THE_LOG = SnapshotId(0, 0)


@dataclass(frozen=True, slots=True)
class QuorumOptions:
    """At most one of the three; none if ``controller.quorum.voters`` contains the voters."""

    standalone: bool = False
    """This node is the only voter."""
    initial_controllers: str | None = None
    """``id@host:port:directory-id``, separated by commas; the same for every node."""
    no_initial_controllers: bool = False
    """The voters are formatted elsewhere; this node joins them later."""

    @property
    def dynamic(self) -> bool:
        return self.standalone or self.initial_controllers is not None or self.no_initial_controllers


@dataclass(frozen=True, slots=True)
class FormatResult:
    cluster_id: str
    features: dict[str, int]
    formatted: tuple[str, ...]
    already_formatted: tuple[str, ...]


def random_cluster_id() -> str:
    return uuid_to_text(random_uuid())


def format_storage(
    config: BrokerConfig,
    *,
    cluster_id: str | None = None,
    quorum: QuorumOptions | None = None,
    release_version: str | None = None,
    features: Iterable[tuple[str, int]] = (),
    users: Sequence[UserScramCredentialRecord] = (),
    ignore_formatted: bool = False,
    clock: Clock | None = None,
) -> FormatResult:
    """``cluster_id`` None: the id of directories that are already formatted, else a random one.

    Raises ConfigError for conflicting options, StorageError for directories that cannot be used; then nothing
    was changed, unless a disk failed in the middle.
    """
    options = quorum or QuorumOptions()
    _check_quorum_options(config, options)
    levels = initial_features(
        release_version,
        features,
        dynamic_quorum=options.dynamic,
        unstable=config.bool("unstable.feature.versions.enable"),
    )
    if users and levels[METADATA_VERSION] < SCRAM_SUPPORTED:
        raise ConfigError("--add-scram needs metadata.version 3.5-IV2 or newer. Raise --release-version")
    paths = all_directories(config)
    for path in paths:
        _make_directories(path)
    disks = [LocalDisk(path) for path in paths]
    locks: list[DirLock] = []
    try:
        for disk in disks:
            locks.append(DirLock(disk))
        metas = {disk.directory: read_meta_properties(disk) for disk in disks}
        formatted = {path: meta for path, meta in metas.items() if meta is not None}
        chosen = _choose_cluster_id(cluster_id, formatted.values())
        _check_formatted(config.node_id, chosen, formatted, ignore_formatted)
        fresh = [disk for disk in disks if disk.directory not in formatted]
        for disk in fresh:
            _reject_metadata_log(disk)
        # The metadata log directory comes last: without it no voter can start.
        fresh.sort(key=lambda disk: disk.directory == config.metadata_log_dir)
        ids = _directory_ids(config, options, fresh)
        voters = _first_voters(config, options, ids)
        now_ms = (clock or SystemClock()).now_ms()
        for disk in fresh:
            _write_bootstrap(disk, [*feature_records(levels), *((user, 0) for user in users)], now_ms)
            if disk.directory == config.metadata_log_dir and voters is not None:
                _write_first_voters(disk, voters, now_ms)
            write_meta_properties(disk, MetaProperties(chosen, config.node_id, ids[disk.directory]))
    finally:
        for lock in locks:
            lock.release(remove=True)
    return FormatResult(chosen, levels, tuple(disk.directory for disk in fresh), tuple(formatted))


def _check_quorum_options(config: BrokerConfig, options: QuorumOptions) -> None:
    chosen = [options.standalone, options.initial_controllers is not None, options.no_initial_controllers]
    if sum(chosen) > 1:
        raise ConfigError("Give only one of --standalone, --initial-controllers and --no-initial-controllers")
    if config.quorum_voters and options.dynamic:
        raise ConfigError(
            "controller.quorum.voters already contains the voters. Remove it and set "
            "controller.quorum.bootstrap.servers to keep them in the metadata log, or omit "
            "--standalone, --initial-controllers and --no-initial-controllers"
        )
    if not config.is_controller and (options.standalone or options.initial_controllers is not None):
        raise ConfigError("Only a controller can vote, but process.roles of this node has no controller")
    if config.is_controller and not config.quorum_voters and not options.dynamic:
        raise ConfigError(
            "controller.quorum.voters is not set. Give the voters: --standalone for a cluster with one "
            "controller, --initial-controllers for several, --no-initial-controllers to join a cluster later"
        )


def _choose_cluster_id(requested: str | None, formatted: Iterable[MetaProperties]) -> str:
    if requested is None:
        return next((meta.cluster_id for meta in formatted), None) or random_cluster_id()
    if not requested or requested != "".join(requested.split()):
        raise ConfigError(f"{requested!r} is not a valid cluster id. Use a text without spaces")
    return requested


def _check_formatted(
    node_id: int, cluster_id: str, formatted: dict[str, MetaProperties], ignore_formatted: bool
) -> None:
    for path, meta in formatted.items():
        meta.check_owner(path, cluster_id, node_id)
        if not ignore_formatted:
            raise StorageError(
                f"{path} is already formatted. Give --ignore-formatted to keep it and format the others"
            )


def _reject_metadata_log(disk: Disk) -> None:
    directory = os.path.join(disk.directory, str(METADATA_PARTITION))
    if disk.status(directory) is None:
        return
    segments = (disk.status(os.path.join(directory, name)) for name in _segments(disk, directory))
    if any(status is not None and status.size > 0 for status in segments):
        raise StorageError(
            f"{disk.directory} has no meta.properties but contains a metadata log, which formatting would "
            "orphan. Restore meta.properties, or move the content of the directory away"
        )


def _segments(disk: Disk, directory: str) -> list[str]:
    return [name for name in disk.list_names(directory) if name.endswith(".log")]


def _directory_ids(config: BrokerConfig, options: QuorumOptions, disks: Iterable[Disk]) -> dict[str, Uuid]:
    ids = {disk.directory: random_uuid() for disk in disks}
    if options.initial_controllers is not None and config.metadata_log_dir in ids:
        listed = _parse_controllers(options.initial_controllers, config.controller_listener_names[0])
        own = next((voter for voter in listed.voters if voter.node_id == config.node_id), None)
        if own is None:
            raise ConfigError(
                f"--initial-controllers does not contain node {config.node_id}, which is being formatted"
            )
        ids[config.metadata_log_dir] = own.directory_id
    return ids


def _first_voters(config: BrokerConfig, options: QuorumOptions, ids: dict[str, Uuid]) -> VoterSet | None:
    """None: the voters are configured elsewhere, or were written earlier."""
    listener = config.controller_listener_names[0]
    directory_id = ids.get(config.metadata_log_dir)
    if options.initial_controllers is not None:
        return _parse_controllers(options.initial_controllers, listener)
    if not options.standalone or directory_id is None:
        return None
    endpoint = next(
        (each for each in config.advertised_controller_listeners() if each.listener_name == listener), None
    )
    if endpoint is None:
        raise ConfigError(
            f"controller.listener.names starts with {listener}, but no listener has that name. "
            f"Add {listener}://HOST:PORT to listeners"
        )
    return VoterSet(
        (Voter(config.node_id, directory_id, (Endpoint(listener, endpoint.host, endpoint.port),)),)
    )


def _parse_controllers(text: str, listener: str) -> VoterSet:
    return VoterSet(tuple(_parse_controller(entry.strip(), listener) for entry in text.split(",")))


def _parse_controller(entry: str, listener: str) -> Voter:
    try:
        node_id, address = entry.split("@", 1)
        host_port, directory_id = address.rsplit(":", 1)
        host, port = parse_host_port(host_port)
        if not host or not 0 <= port <= 65535:
            raise ValueError("it needs a host and a port up to 65535")
        return Voter(int(node_id), uuid_from_text(directory_id), (Endpoint(listener, host, port),))
    except ValueError as error:
        raise ConfigError(
            f"Invalid entry {entry!r} of --initial-controllers ({error}). Write each as "
            "id@host:port:directory-id, such as 1@example.com:9093:JEXY6aqzQY-32P5TStzaFg"
        ) from error


def _make_directories(path: str) -> None:
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise StorageError(f"Cannot create the log directory {path}: {error.strerror}") from error


def _write_bootstrap(disk: Disk, records: Sequence[VersionedRecord], now_ms: int) -> None:
    write_checkpoint(
        disk,
        os.path.join(disk.directory, BOOTSTRAP_CHECKPOINT),
        epoch=0,
        control=(),
        records=records,
        last_timestamp_ms=0,
        now_ms=now_ms,
    )


def _write_first_voters(disk: Disk, voters: VoterSet, now_ms: int) -> None:
    directory = os.path.join(disk.directory, str(METADATA_PARTITION))
    if disk.status(directory) is None:
        disk.make_directory(directory)
        disk.sync_directory(disk.directory)
    SnapshotStore(disk, directory).write(
        _BEFORE_THE_LOG,
        control=(KRaftVersionRecord(version=0, kraft_version=1), voters.to_record()),
        records=(),
        last_timestamp_ms=now_ms,
        now_ms=now_ms,
    )
