"""Voter sets, from the configuration and from records."""

from __future__ import annotations

from ruslo.machines.raft.voters import Endpoint, Voter, VoterSet
from ruslo.model.ids import ZERO_UUID

A, B = b"A" * 16, b"B" * 16


def test_a_static_voter_is_its_id() -> None:
    voters = VoterSet.static({1: ("a", 9093), 2: ("b", 9094)}, "CONTROLLER")
    assert voters.ids == (1, 2)
    assert voters.voters[1] == Voter(2, ZERO_UUID, (Endpoint("CONTROLLER", "b", 9094),))
    assert voters.find(2, A) == voters.find(2, B) == voters.voters[1]
    assert voters.find(3, A) is None


def test_a_dynamic_voter_is_its_id_and_its_directory() -> None:
    voters = VoterSet((Voter(1, A), Voter(2, B)))
    assert voters.find(1, A) == Voter(1, A)
    assert voters.find(1, B) is None


def test_record_round_trip() -> None:
    endpoints = (Endpoint("CONTROLLER", "a", 9093), Endpoint("OTHER", "::1", 65535))
    voters = VoterSet((Voter(1, A, endpoints, (0, 1)), Voter(2, B, (), (1, 1))))
    record = voters.to_record()
    assert VoterSet.from_record(type(record).from_bytes(record.to_bytes(0), 0)) == voters
