"""Quotas, ACLs, SCRAM credentials and delegation tokens, kept as their records.

The image does not interpret them; it only carries them through snapshots without loss.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from ruslo.machines.controller.records import DELEGATION_TOKENS_SUPPORTED, SCRAM_SUPPORTED, VersionedRecord

if TYPE_CHECKING:
    from ruslo.model.ids import Uuid
    from ruslo.protocol.messages.access_control_entry_record import AccessControlEntryRecord
    from ruslo.protocol.messages.client_quota_record import ClientQuotaRecord
    from ruslo.protocol.messages.delegation_token_record import DelegationTokenRecord
    from ruslo.protocol.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord
    from ruslo.protocol.messages.remove_delegation_token_record import RemoveDelegationTokenRecord
    from ruslo.protocol.messages.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
    from ruslo.protocol.messages.user_scram_credential_record import UserScramCredentialRecord

QuotaEntity: TypeAlias = tuple[tuple[str, str | None], ...]


class SecurityImage:
    __slots__ = ("acls", "quotas", "scram_credentials", "tokens")

    def __init__(self) -> None:
        self.quotas: dict[tuple[QuotaEntity, str], ClientQuotaRecord] = {}
        self.acls: dict[Uuid, AccessControlEntryRecord] = {}
        self.scram_credentials: dict[tuple[str, int], UserScramCredentialRecord] = {}
        self.tokens: dict[str, DelegationTokenRecord] = {}

    def copy(self) -> SecurityImage:
        copy = SecurityImage()
        copy.quotas = self.quotas.copy()
        copy.acls = self.acls.copy()
        copy.scram_credentials = self.scram_credentials.copy()
        copy.tokens = self.tokens.copy()
        return copy

    def replay_quota(self, record: ClientQuotaRecord) -> None:
        entity: QuotaEntity = tuple(
            sorted(((each.entity_type, each.entity_name) for each in record.entity), key=str)
        )
        if record.remove:
            self.quotas.pop((entity, record.key), None)
        else:
            self.quotas[entity, record.key] = record

    def replay_acl(self, record: AccessControlEntryRecord) -> None:
        self.acls[record.id] = record

    def replay_remove_acl(self, record: RemoveAccessControlEntryRecord) -> None:
        self.acls.pop(record.id, None)

    def replay_scram(self, record: UserScramCredentialRecord) -> None:
        self.scram_credentials[record.name, record.mechanism] = record

    def replay_remove_scram(self, record: RemoveUserScramCredentialRecord) -> None:
        self.scram_credentials.pop((record.name, record.mechanism), None)

    def replay_token(self, record: DelegationTokenRecord) -> None:
        self.tokens[record.token_id] = record

    def replay_remove_token(self, record: RemoveDelegationTokenRecord) -> None:
        self.tokens.pop(record.token_id, None)

    def quota_records(self) -> Iterator[VersionedRecord]:
        for record in self.quotas.values():
            yield record, 0

    def credential_records(self, metadata_version: int) -> Iterator[VersionedRecord]:
        """ACLs, SCRAM credentials and tokens: the part of a snapshot after the producer ids."""
        for acl in self.acls.values():
            yield acl, 0
        if metadata_version >= SCRAM_SUPPORTED:
            for credential in self.scram_credentials.values():
                yield credential, 0
        if metadata_version >= DELEGATION_TOKENS_SUPPORTED:
            for token in self.tokens.values():
                yield token, 0
