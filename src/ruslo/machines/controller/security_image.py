"""ACLs, SCRAM credentials, delegation tokens and client quotas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from ruslo.machines.controller.records import DELEGATION_TOKENS_SUPPORTED, SCRAM_SUPPORTED, VersionedRecord
from ruslo.model.acls import Acl
from ruslo.protocol.messages.access_control_entry_record import AccessControlEntryRecord

if TYPE_CHECKING:
    from ruslo.machines.controller.delta import MetadataDelta
    from ruslo.model.ids import Uuid
    from ruslo.protocol.messages.client_quota_record import ClientQuotaRecord
    from ruslo.protocol.messages.delegation_token_record import DelegationTokenRecord
    from ruslo.protocol.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord
    from ruslo.protocol.messages.remove_delegation_token_record import RemoveDelegationTokenRecord
    from ruslo.protocol.messages.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
    from ruslo.protocol.messages.user_scram_credential_record import UserScramCredentialRecord

QuotaEntity: TypeAlias = tuple[tuple[str, str | None], ...]
"""Pairs of entity type and name, sorted; the name None stands for the default."""


class SecurityImage:
    __slots__ = ("acl_ids", "acls", "quotas", "scram_credentials", "tokens")

    def __init__(self) -> None:
        self.quotas: dict[QuotaEntity, dict[str, ClientQuotaRecord]] = {}
        self.acls: dict[Uuid, Acl] = {}
        self.acl_ids: dict[Acl, Uuid] = {}
        """The id of each ACL: the controller creates none twice."""
        self.scram_credentials: dict[tuple[str, int], UserScramCredentialRecord] = {}
        """By user and number of the mechanism."""
        self.tokens: dict[str, DelegationTokenRecord] = {}

    def copy(self) -> SecurityImage:
        copy = SecurityImage()
        copy.quotas = {entity: values.copy() for entity, values in self.quotas.items()}
        copy.acls = self.acls.copy()
        copy.acl_ids = self.acl_ids.copy()
        copy.scram_credentials = self.scram_credentials.copy()
        copy.tokens = self.tokens.copy()
        return copy

    def replay_quota(self, record: ClientQuotaRecord, delta: MetadataDelta | None) -> None:
        entity = quota_entity({each.entity_type: each.entity_name for each in record.entity})
        if not record.remove:
            self.quotas.setdefault(entity, {})[record.key] = record
        elif entity in self.quotas:
            self.quotas[entity].pop(record.key, None)
            if not self.quotas[entity]:
                del self.quotas[entity]
        if delta is not None:
            delta.changed_quotas.add(entity)

    def replay_acl(self, record: AccessControlEntryRecord, delta: MetadataDelta | None) -> None:
        if delta is not None:
            delta.changed_acls.setdefault(record.id, self.acls.get(record.id))
        acl = Acl(
            record.resource_type,
            record.resource_name,
            record.pattern_type,
            record.principal,
            record.host,
            record.operation,
            record.permission_type,
        )
        self.acls[record.id] = acl
        self.acl_ids[acl] = record.id

    def replay_remove_acl(self, record: RemoveAccessControlEntryRecord, delta: MetadataDelta | None) -> None:
        acl = self.acls.pop(record.id, None)
        if acl is None:
            return
        if self.acl_ids.get(acl) == record.id:
            del self.acl_ids[acl]
        if delta is not None:
            delta.changed_acls.setdefault(record.id, acl)

    def replay_scram(self, record: UserScramCredentialRecord, delta: MetadataDelta | None) -> None:
        self.scram_credentials[record.name, record.mechanism] = record
        if delta is not None:
            delta.changed_users.add(record.name)

    def replay_remove_scram(
        self, record: RemoveUserScramCredentialRecord, delta: MetadataDelta | None
    ) -> None:
        self.scram_credentials.pop((record.name, record.mechanism), None)
        if delta is not None:
            delta.changed_users.add(record.name)

    def replay_token(self, record: DelegationTokenRecord, delta: MetadataDelta | None) -> None:
        self.tokens[record.token_id] = record
        if delta is not None:
            delta.changed_tokens.add(record.token_id)

    def replay_remove_token(self, record: RemoveDelegationTokenRecord, delta: MetadataDelta | None) -> None:
        self.tokens.pop(record.token_id, None)
        if delta is not None:
            delta.changed_tokens.add(record.token_id)

    def changes_since(self, before: SecurityImage, delta: MetadataDelta) -> None:
        """Add the difference to an earlier image, as a snapshot makes it."""
        for acl_id in before.acls.keys() | self.acls.keys():
            old = before.acls.get(acl_id)
            if old != self.acls.get(acl_id):
                delta.changed_acls[acl_id] = old
        delta.changed_users |= {
            user
            for user, mechanism in before.scram_credentials.keys() | self.scram_credentials.keys()
            if before.scram_credentials.get((user, mechanism))
            != self.scram_credentials.get((user, mechanism))
        }
        delta.changed_tokens |= {
            token_id
            for token_id in before.tokens.keys() | self.tokens.keys()
            if before.tokens.get(token_id) != self.tokens.get(token_id)
        }
        delta.changed_quotas |= {
            entity
            for entity in before.quotas.keys() | self.quotas.keys()
            if before.quotas.get(entity) != self.quotas.get(entity)
        }

    def quota_records(self) -> Iterator[VersionedRecord]:
        for values in self.quotas.values():
            for record in values.values():
                yield record, 0

    def credential_records(self, metadata_version: int) -> Iterator[VersionedRecord]:
        """ACLs, SCRAM credentials and tokens: the part of a snapshot after the producer ids."""
        for acl_id, acl in self.acls.items():
            yield acl_record(acl_id, acl), 0
        if metadata_version >= SCRAM_SUPPORTED:
            for credential in self.scram_credentials.values():
                yield credential, 0
        if metadata_version >= DELEGATION_TOKENS_SUPPORTED:
            for token in self.tokens.values():
                yield token, 0


def quota_entity(names: dict[str, str | None]) -> QuotaEntity:
    return tuple(sorted(names.items(), key=str))


def acl_record(acl_id: Uuid, acl: Acl) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=acl_id,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
