from __future__ import annotations

from ruslo.client.admin.group_descriptions import CLASSIC, GroupDescription, GroupMember
from ruslo.client.admin.group_offsets import Committed, CommittedOffset
from ruslo.client.admin.groups import GroupListing
from ruslo.client.admin.share_group_offsets import ShareOffset
from ruslo.client.views.group_survey import GroupSurvey, TopicReader
from ruslo.model.topics import TopicPartition

ORDERS = [TopicPartition("orders", number) for number in range(3)]
OTHER = TopicPartition("payments", 0)


def committed(offsets: dict[TopicPartition, int]) -> Committed:
    return {tp: CommittedOffset(offset, -1, "") for tp, offset in offsets.items()}


def member(name: str, assignment: tuple[TopicPartition, ...] | None, *subscribed: str) -> GroupMember:
    return GroupMember(name, None, name, "127.0.0.1", CLASSIC, assignment, subscribed)


def listed(name: str, kind: str = CLASSIC, state: str = "Stable") -> GroupListing:
    return GroupListing(name, kind, state, "consumer", 1)


def described(name: str, *members: GroupMember) -> GroupDescription:
    return GroupDescription(name, CLASSIC, "Stable", "consumer", "range", 1, members)


SURVEY = GroupSurvey(
    listed=[
        listed("billing"),
        listed("fresh", state=""),
        listed("gone", state="Empty"),
        listed("other"),
        listed("shared", "share"),
    ],
    described={
        "billing": described(
            "billing",
            member("a", (ORDERS[0], OTHER), "orders", "payments"),
            member("b", (ORDERS[1],), "orders"),
            member("idle", (), "orders"),
            member("elsewhere", (), "payments"),
        ),
        "fresh": described("fresh", member("only", (ORDERS[2],))),
        "gone": described("gone"),
        "other": described("other", member("strange bytes", None, "payments")),
    },
    committed={
        "billing": committed({ORDERS[0]: 4, ORDERS[1]: 12, OTHER: 1}),
        "fresh": {},
        "gone": committed({ORDERS[0]: 0, ORDERS[1]: 0, TopicPartition("orders", 9): 5}),
        "other": committed({OTHER: 50}),
    },
    ends={ORDERS[0]: 10, ORDERS[1]: 10, OTHER: 100},
)
SHARING = GroupSurvey(
    listed=[listed("queue", "share"), listed("hidden", "share")],
    described={"queue": described("queue", member("a", (ORDERS[0], ORDERS[2]), "orders"))},
    committed={},
    ends={},
    shared={
        "queue": {
            ORDERS[0]: ShareOffset(3, 4, None),
            ORDERS[1]: ShareOffset(None, None, None),
            OTHER: ShareOffset(1, 7, None),
        }
    },
)


def test_share_groups_have_the_lag_that_brokers_return() -> None:
    assert SHARING.lag("queue") == 11
    assert SHARING.lag("hidden") is None
    assert SHARING.readers("orders") == [TopicReader("queue", "Stable", 1, 3, 4)]
    assert SHARING.unknown == 1


def test_readers_have_committed_offsets_subscriptions_or_partitions() -> None:
    assert SURVEY.readers("orders") == [
        TopicReader("billing", "Stable", members=3, partitions=2, lag=6),
        TopicReader("fresh", "Stable", members=1, partitions=1, lag=None),
        TopicReader("gone", "Empty", members=0, partitions=3, lag=20),
    ]
    assert [reader.group_id for reader in SURVEY.readers("payments")] == ["billing", "other"]
    assert SURVEY.readers("nowhere") == []


def test_lag_counts_existing_partitions_only() -> None:
    lags = {name: SURVEY.lag(name) for name in ("billing", "gone", "fresh", "unknown")}
    assert lags == {"billing": 105, "gone": 20, "fresh": None, "unknown": None}


def test_groups_of_other_types_are_unknown() -> None:
    assert SURVEY.unknown == 1
