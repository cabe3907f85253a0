from __future__ import annotations

from ruslo.client.share.acknowledgements import SharePartitionId, acknowledgement_batches, renews
from ruslo.machines.share_partition.states import AcknowledgeType
from ruslo.machines.share_partition.values import AcknowledgementBatch
from ruslo.model.ids import random_uuid

ACCEPT, RELEASE, REJECT, RENEW = list(AcknowledgeType)[1:]


def test_adjacent_offsets_of_one_type_become_a_range_with_one_type() -> None:
    assert acknowledgement_batches({7: ACCEPT, 5: ACCEPT, 6: ACCEPT, 9: ACCEPT}) == [
        AcknowledgementBatch(5, 7, (ACCEPT,)),
        AcknowledgementBatch(9, 9, (ACCEPT,)),
    ]


def test_a_range_of_several_types_has_one_for_each_offset() -> None:
    assert acknowledgement_batches({5: ACCEPT, 6: RELEASE, 7: REJECT}) == [
        AcknowledgementBatch(5, 7, (ACCEPT, RELEASE, REJECT))
    ]


def test_no_offsets_need_no_range() -> None:
    assert acknowledgement_batches({}) == []


def test_one_renewal_makes_a_request_of_renewals() -> None:
    partition = SharePartitionId("orders", random_uuid(), 0)
    assert renews({partition: acknowledgement_batches({1: ACCEPT, 2: RENEW})})
    assert not renews({partition: acknowledgement_batches({1: ACCEPT, 2: REJECT})})
