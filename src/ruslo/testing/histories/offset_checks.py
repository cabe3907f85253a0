"""Checks of offsets that are committed in transactions (consume, transform, produce).

A transaction with offsets states that its output was produced from [first, end) of a partition. So the
committed transactions of each group and partition must follow one another without gaps and overlaps, and the
group's offset must be the end of the last one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator

from ruslo.model.topics import TopicPartition
from ruslo.testing.histories.anomalies import Anomaly, Finding
from ruslo.testing.histories.digest import Digest, OffsetCommit, Outcome, Read
from ruslo.testing.histories.events import NO_OFFSET, UNSTABLE
from ruslo.testing.histories.observations import Observations
from ruslo.testing.histories.transaction_checks import missing_writes, visible_writes


class _GroupOffset:
    """All commits of transactions to a group's offset of one partition."""

    def __init__(self, group: str, tp: TopicPartition) -> None:
        self.name = f"{tp} for {group}"
        self.offset_commits: list[OffsetCommit] = []
        self.by_end: defaultdict[int, list[OffsetCommit]] = defaultdict(list)
        self._confirmed_at: list[int] = []
        self._furthest: list[OffsetCommit] = []
        """For each of ``_confirmed_at``, the commit with the highest end until then."""

    def add(self, commit: OffsetCommit) -> None:
        self.offset_commits.append(commit)
        self.by_end[commit.sent.end].append(commit)

    def sort(self, confirmed_at: dict[str, int]) -> None:
        confirmed = ((confirmed_at.get(commit.transaction.name), commit) for commit in self.offset_commits)
        for at, commit in sorted(
            ((at, commit) for at, commit in confirmed if at is not None), key=lambda each: each[0]
        ):
            self._confirmed_at.append(at)
            if self._furthest and self._furthest[-1].sent.end > commit.sent.end:
                commit = self._furthest[-1]
            self._furthest.append(commit)

    def furthest_before(self, at: int) -> OffsetCommit | None:
        """The highest commit that was acknowledged before index ``at`` of the history."""
        count = bisect_left(self._confirmed_at, at)
        return self._furthest[count - 1] if count else None


def offsets_out_of_step(history: Digest, seen: Observations) -> Iterator[Finding]:
    group_offsets: dict[tuple[str, TopicPartition], _GroupOffset] = {}
    for transaction in history.transactions.values():
        for commit in transaction.offset_commits:
            key = (commit.sent.group, commit.sent.tp)
            if key not in group_offsets:
                group_offsets[key] = _GroupOffset(*key)
            group_offsets[key].add(commit)
    for group_offset in group_offsets.values():
        group_offset.sort(history.confirmed_at)
        yield from _processed_twice(group_offset, seen)
    for read, fetch in history.fetches:
        for tp, offset in fetch.offsets:
            group_offset = group_offsets.get((fetch.group, tp)) or _GroupOffset(fetch.group, tp)
            if offset == UNSTABLE:
                if fetch.final:
                    yield Finding(
                        Anomaly.HANGING_TRANSACTION,
                        f"all producers have ended, but the offset of {group_offset.name} is still pending",
                        (read.event,),
                    )
                continue
            wrong = list(_wrong_offset(group_offset, read, offset))
            yield from wrong
            if fetch.final and not wrong:
                yield from _broken_chain(group_offset, offset, read, seen)


def _counts(commit: OffsetCommit, seen: Observations) -> bool:
    """Whether the transaction is known to be committed."""
    transaction = commit.transaction
    return transaction.outcome is Outcome.COMMITTED or bool(visible_writes(transaction, seen))


def _processed_twice(group_offset: _GroupOffset, seen: Observations) -> Iterator[Finding]:
    counting = [commit for commit in group_offset.offset_commits if _counts(commit, seen)]
    reached: OffsetCommit | None = None
    for commit in sorted(counting, key=lambda each: (each.sent.first, each.sent.end)):
        if reached is not None and commit.sent.first < reached.sent.end:
            yield Finding(
                Anomaly.OFFSETS_OUT_OF_STEP,
                f"offset {commit.sent.first} of {group_offset.name} was processed twice: by "
                f"{reached.transaction.name} and by {commit.transaction.name}",
                (reached.invoked, *reached.transaction.ends, commit.invoked, *commit.transaction.ends),
            )
        if reached is None or commit.sent.end > reached.sent.end:
            reached = commit


def _wrong_offset(group_offset: _GroupOffset, read: Read, offset: int) -> Iterator[Finding]:
    """Report an offset that cannot have been committed at that time."""
    furthest = group_offset.furthest_before(read.invoked)
    if furthest is not None and furthest.sent.end > offset:
        what = f"{furthest.transaction.name} had committed {furthest.sent.end} before"
    elif offset == NO_OFFSET:
        return
    elif offset not in group_offset.by_end:
        furthest, what = None, "no transaction sent this offset"
    else:
        for commit in group_offset.by_end[offset]:
            invoked, outcome = commit.transaction.commit_invoked, commit.transaction.outcome
            if invoked is not None and invoked < read.completed and outcome is not Outcome.ABORTED:
                return
        furthest, what = group_offset.by_end[offset][0], "the transaction that sent it was not committed then"
    yield _finding(f"the offset of {group_offset.name} is {offset}, but {what}", read, furthest)


def _broken_chain(
    group_offset: _GroupOffset, offset: int, read: Read, seen: Observations
) -> Iterator[Finding]:
    """Follow the transactions back from the final offset to the group's first offset."""
    reached = max(offset, 0)
    for commit in group_offset.offset_commits:
        if commit.sent.end > reached and _counts(commit, seen):
            yield _finding(
                f"the final offset of {group_offset.name} is {offset}, but the output of "
                f"{commit.transaction.name} exists, which ended at {commit.sent.end}",
                read,
                commit,
            )
    begin = min((commit.sent.first for commit in group_offset.offset_commits), default=0)
    while reached > begin:
        candidates = [
            commit
            for commit in group_offset.by_end.get(reached, [])
            if commit.transaction.outcome is not Outcome.ABORTED and commit.sent.first < reached
        ]
        whole = [commit for commit in candidates if not missing_writes(commit.transaction, seen)]
        if not whole:
            yield _finding(
                f"the final offset of {group_offset.name} is {offset}, but the output of the records before "
                f"{reached} is missing",
                read,
                candidates[0] if candidates else None,
            )
            return
        # Prefer a transaction that is known to be committed.
        best = next((commit for commit in whole if _counts(commit, seen)), whole[0])
        reached = best.sent.first


def _finding(what: str, read: Read, commit: OffsetCommit | None) -> Finding:
    proof = () if commit is None else (commit.invoked, *commit.transaction.ends)
    return Finding(Anomaly.OFFSETS_OUT_OF_STEP, what, (*proof, read.event))
