"""Requests about the cluster."""

from __future__ import annotations

from tests.support.authorization.names import ABSENT_ID, Fields, Names


def describe_quorum(names: Names) -> Fields:
    return {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}


def update_features(names: Names) -> Fields:
    update = {"feature": "absent.feature", "max_version_level": 1, "upgrade_type": 1}
    return {"timeout_ms": 10_000, "feature_updates": [update], "validate_only": True}


def describe_cluster(names: Names) -> Fields:
    return {"include_cluster_authorized_operations": True}


def add_raft_voter(names: Names) -> Fields:
    return {
        "cluster_id": "another cluster",
        "timeout_ms": 10_000,
        "voter_id": 9,
        "voter_directory_id": ABSENT_ID,
        "listeners": [{"name": "CONTROLLER", "host": "127.0.0.1", "port": 9}],
    }


def remove_raft_voter(names: Names) -> Fields:
    return {"cluster_id": "another cluster", "voter_id": 9, "voter_directory_id": ABSENT_ID}
