"""What must be true of the metadata log before this node takes part in the quorum."""

from __future__ import annotations

import logging

from ruslo.broker.quorum.metadata_evidence import MetadataEvidence
from ruslo.broker.quorum.metadata_store import MetadataStore
from ruslo.config.broker import BrokerConfig
from ruslo.machines.raft.voters import VoterSet
from ruslo.model.errors import ConfigError
from ruslo.model.ids import ZERO_UUID, Uuid, uuid_to_text
from ruslo.storage.meta_properties import META_PROPERTIES

logger = logging.getLogger(__name__)


def check_log_is_complete(
    config: BrokerConfig, store: MetadataStore, voters: VoterSet, evidence: MetadataEvidence
) -> None:
    """Raises MetadataLost if a voter's log is shorter than it was and no other voter has a copy."""
    voter_ids = set(voters.ids)
    other_voters: set[int] | None = voter_ids - {config.node_id}
    if not voter_ids and config.is_controller and len(config.quorum_bootstrap_servers) < 2:
        other_voters = None
    elif config.node_id not in voter_ids:
        return  # This node is an observer: the voters have the log.
    evidence.check_log(store.directory, max(store.end_offset, store.snapshot_id.offset), other_voters)


def check_directory_id(config: BrokerConfig, directory: str, directory_id: Uuid, voters: VoterSet) -> None:
    """A voter with another directory id is unknown to its quorum: the file is damaged, or the disk is new."""
    voter = next((each for each in voters.voters if each.node_id == config.node_id), None)
    if voter is None or voter.directory_id in (ZERO_UUID, directory_id):
        return
    problem = (
        f"{directory}/{META_PROPERTIES} has directory.id={uuid_to_text(directory_id)}, "
        f"but node {config.node_id} is a voter of the metadata quorum with directory.id="
        f"{uuid_to_text(voter.directory_id)}. If the file is damaged, restore that id in it"
    )
    if len(voters.voters) == 1:
        raise ConfigError(problem)
    logger.error("%s; if the disk is new, replace the voter with 'ruslo cluster voter'", problem)
