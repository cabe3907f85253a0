"""What must hold of offsets that are committed in transactions (consume, transform, produce).

A transaction that carries offsets says: this output is what became of [first, end) of that partition. So for
each group and partition the transactions that count must follow one another without a gap and without an
overlap, and the offset that the group has is where the last of them ended.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator

from ruslo.model.topics import TopicPartition
from ruslo.testing.histories.anomalies import Anomaly, Finding
from ruslo.testing.histories.digest import Digest, Move, Outcome, Read
from ruslo.testing.histories.events import NO_OFFSET, UNSTABLE
from ruslo.testing.histories.sightings import Sightings
from ruslo.testing.histories.transaction_checks import missing_writes, visible_writes


class _Track:
    """All that transactions did to a group's offset of one partition."""

    def __init__(self, group: str, place: TopicPartition) -> None:
        self.name = f"{place} for {group}"
        self.moves: list[Move] = []
        self.by_end: defaultdict[int, list[Move]] = defaultdict(list)
        self._confirmed_at: list[int] = []
        self._furthest: list[Move] = []
        """Beside each of ``_confirmed_at``: of all moves confirmed until then, the one that went furthest."""

    def add(self, move: Move) -> None:
        self.moves.append(move)
        self.by_end[move.sent.end].append(move)

    def sort(self, confirmed_at: dict[str, int]) -> None:
        confirmed = ((confirmed_at.get(move.transaction.name), move) for move in self.moves)
        for at, move in sorted(
            ((at, move) for at, move in confirmed if at is not None), key=lambda each: each[0]
        ):
            self._confirmed_at.append(at)
            if self._furthest and self._furthest[-1].sent.end > move.sent.end:
                move = self._furthest[-1]
            self._furthest.append(move)

    def furthest_before(self, at: int) -> Move | None:
        """Of the moves that were confirmed before that moment."""
        count = bisect_left(self._confirmed_at, at)
        return self._furthest[count - 1] if count else None


def offsets_out_of_step(history: Digest, seen: Sightings) -> Iterator[Finding]:
    tracks: dict[tuple[str, TopicPartition], _Track] = {}
    for transaction in history.transactions.values():
        for move in transaction.moves:
            place = (move.sent.group, move.sent.place)
            if place not in tracks:
                tracks[place] = _Track(*place)
            tracks[place].add(move)
    for track in tracks.values():
        track.sort(history.confirmed_at)
        yield from _processed_twice(track, seen)
    for read, fetch in history.fetches:
        for name, offset in fetch.offsets:
            place = (fetch.group, name)
            track = tracks.get(place) or _Track(*place)
            if offset == UNSTABLE:
                if fetch.final:
                    yield Finding(
                        Anomaly.HANGING_TRANSACTION,
                        f"everything is over, but the offset of {track.name} is still held back",
                        (read.event,),
                    )
                continue
            wrong = list(_wrong_offset(track, read, offset))
            yield from wrong
            if fetch.final and not wrong:
                yield from _broken_chain(track, offset, read, seen)


def _counts(move: Move, seen: Sightings) -> bool:
    """Whether its transaction is known to have been committed."""
    transaction = move.transaction
    return transaction.outcome is Outcome.COMMITTED or bool(visible_writes(transaction, seen))


def _processed_twice(track: _Track, seen: Sightings) -> Iterator[Finding]:
    counting = [move for move in track.moves if _counts(move, seen)]
    reached: Move | None = None
    for move in sorted(counting, key=lambda each: (each.sent.first, each.sent.end)):
        if reached is not None and move.sent.first < reached.sent.end:
            yield Finding(
                Anomaly.OFFSETS_OUT_OF_STEP,
                f"offset {move.sent.first} of {track.name} was processed twice: by "
                f"{reached.transaction.name} and by {move.transaction.name}",
                (reached.asked, *reached.transaction.ends, move.asked, *move.transaction.ends),
            )
        if reached is None or move.sent.end > reached.sent.end:
            reached = move


def _wrong_offset(track: _Track, read: Read, offset: int) -> Iterator[Finding]:
    """Whether the offset can be what was committed at the time."""
    furthest = track.furthest_before(read.asked)
    if furthest is not None and furthest.sent.end > offset:
        what = f"{furthest.transaction.name} had committed {furthest.sent.end} before"
    elif offset == NO_OFFSET:
        return
    elif offset not in track.by_end:
        furthest, what = None, "no transaction ever sent that"
    else:
        for move in track.by_end[offset]:
            asked, outcome = move.transaction.commit_asked, move.transaction.outcome
            if asked is not None and asked < read.answered and outcome is not Outcome.ABORTED:
                return
        furthest, what = track.by_end[offset][0], "whoever sent that was not committed then"
    yield _finding(f"the offset of {track.name} is {offset}, but {what}", read, furthest)


def _broken_chain(track: _Track, offset: int, read: Read, seen: Sightings) -> Iterator[Finding]:
    """The final offset: go back from it, transaction by transaction, to where the group began."""
    reached = max(offset, 0)
    for move in track.moves:
        if move.sent.end > reached and _counts(move, seen):
            yield _finding(
                f"the final offset of {track.name} is {offset}, but the output of {move.transaction.name} is "
                f"there, which ended at {move.sent.end}",
                read,
                move,
            )
    begin = min((move.sent.first for move in track.moves), default=0)
    while reached > begin:
        candidates = [
            move
            for move in track.by_end.get(reached, [])
            if move.transaction.outcome is not Outcome.ABORTED and move.sent.first < reached
        ]
        whole = [move for move in candidates if not missing_writes(move.transaction, seen)]
        if not whole:
            yield _finding(
                f"the final offset of {track.name} is {offset}, but nothing is there that became of the "
                f"records before {reached}",
                read,
                candidates[0] if candidates else None,
            )
            return
        # One that is known to be committed is a better witness than one that may be.
        best = next((move for move in whole if _counts(move, seen)), whole[0])
        reached = best.sent.first


def _finding(what: str, read: Read, move: Move | None) -> Finding:
    proof = () if move is None else (move.asked, *move.transaction.ends)
    return Finding(Anomaly.OFFSETS_OUT_OF_STEP, what, (*proof, read.event))
