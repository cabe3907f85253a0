"""An hour of a group coordinator with four groups, an unreliable network and log, clients and operators.

Faults and recovery alternate. After each recovery every partition must have an owner; the other invariants
are checked after every event.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ruslo.machines.groups.settings import GroupSettings
from ruslo.testing.simulation import LineFaults, SimClock
from ruslo.testing.simulation.groups.classic_member import ClassicSimMember
from ruslo.testing.simulation.groups.consumer_member import ConsumerSimMember
from ruslo.testing.simulation.groups.coordinator import CoordinatorFaults, SimCoordinator
from ruslo.testing.simulation.groups.invariants import GroupInvariants
from ruslo.testing.simulation.groups.member import SimMember
from ruslo.testing.simulation.groups.topics import SimTopics

MINUTE_MS = 60_000
ROUNDS = 4
CHAOS_MS = 9 * MINUTE_MS
RECOVERY_MS = 6 * MINUTE_MS
"""Longer than the session of a member that died during its first JoinGroup."""
MAX_MEMBERS = 6
EAGER, COOPERATIVE, CONSUMER, MIXED = "eager", "cooperative", "consumer", "mixed"
GROUPS = (EAGER, COOPERATIVE, CONSUMER, MIXED)


class GroupChaos:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.clock = SimClock(seed)
        random = self.random = self.clock.random
        self.lines = LineFaults()
        self.invariants = GroupInvariants()
        topics = SimTopics().with_topic("orders", 6).with_topic("parcels", 3)
        settings = GroupSettings(
            initial_rebalance_delay_ms=random.choice([0, 3_000]),
            consumer_assignors=(random.choice(["uniform", "range", "custom"]),),
            consumer_assignment_interval_ms=random.choice([0, 1_000]),
        )
        self.coordinator = SimCoordinator(
            self.clock,
            topics,
            settings,
            on_committed=self.invariants.on_committed,
            on_step=self.invariants.check_step,
        )
        self._members_created = 0
        self._topics_created = 0
        self._instances: dict[str, dict[str, list[str]]] = {group: {} for group in GROUPS}
        """Static members that have left and may rejoin, with their subscriptions. A classic one must rejoin
        with the same subscription, because that causes no rebalance (KIP-345)."""
        self._is_recovering = True

    @property
    def members(self) -> list[SimMember]:
        return self.invariants.members

    # -- a run -----------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Raises InvariantBrokenError, or the error of the machine, with the command that replays the run."""
        try:
            for _ in range(ROUNDS):
                self._begin_faults()
                self.clock.run_for(CHAOS_MS)
                self._end_faults()
                self.clock.run_for(RECOVERY_MS)
                self.invariants.check_recovered(self.coordinator)
                self.invariants.check_log(self.coordinator)
        except Exception as error:
            error.add_note(self._how_to_replay())
            raise

    def _how_to_replay(self) -> str:
        lines = [f"{at_ms:>9} {what!r}" for at_ms, what in list(self.coordinator.trace)[-40:]]
        command = f"RUSLO_CHAOS_SEEDS={self.seed}-{self.seed} pytest tests/sim/test_groups_chaos.py"
        return "\n".join([f"virtual time {self.clock.monotonic_ms()} ms; replay: {command}", *lines])

    # -- faults and recovery ---------------------------------------------------------------------------------

    def _begin_faults(self) -> None:
        random = self.random
        self._is_recovering = False
        self.lines.lost = random.choice([0.0, 0.01, 0.05])
        self.lines.repeated = random.choice([0.0, 0.05])
        self.lines.slow = random.choice([0.0, 0.1])
        faults = self.coordinator.faults
        faults.failed_appends = random.choice([0.0, 0.02])
        faults.slow = random.choice([0.0, 0.05])
        faults.failing_assignor = random.choice([0.0, 0.3])
        self._act_later()

    def _end_faults(self) -> None:
        self._is_recovering = True
        self.lines.lost = self.lines.repeated = self.lines.slow = 0.0
        self.coordinator.faults = CoordinatorFaults()
        for group in GROUPS:
            if not self._alive(group):
                self._join(group)

    def _act_later(self) -> None:
        self.clock.call_later(self.random.randint(100, 12_000), self._act)

    def _act(self) -> None:
        if self._is_recovering:
            return
        actions: list[tuple[Callable[[], None], int]] = [
            (self._join_random_group, 30),
            (partial(self._random_member, self._leave), 10),
            (partial(self._random_member, self._kill), 7),
            (partial(self._random_member, lambda each: each.pause(self.random.randint(1_000, 90_000))), 12),
            (partial(self._random_member, self._subscribe), 8),
            (self._add_partition, 3),
            (self._create_topic, 3),
            (self._delete_topic, 2),
            (self._restart, 4),
            (self._downgrade, 2),
            (self._check_log, 4),
        ]
        self.random.choices([action for action, _ in actions], [weight for _, weight in actions])[0]()
        self.members[:] = [each for each in self.members if each.alive]
        self._act_later()

    def _check_log(self) -> None:
        self.invariants.check_log(self.coordinator)
        self.coordinator.log.compact()

    # -- clients ---------------------------------------------------------------------------------------------

    def _alive(self, group: str) -> list[SimMember]:
        return [each for each in self.members if each.alive and each.group_id == group]

    def _random_member(self, action: Callable[[SimMember], None]) -> None:
        living = [each for each in self.members if each.alive]
        if living:
            action(self.random.choice(living))

    def _join_random_group(self) -> None:
        group = self.random.choice(GROUPS)
        if len(self._alive(group)) < MAX_MEMBERS:
            self._join(group)

    def _join(self, group: str) -> None:
        random = self.random
        self._members_created += 1
        name = f"{group}-{self._members_created}"
        new_protocol = group == CONSUMER or (group == MIXED and random.random() < 0.5)
        parts = (name, group, self.coordinator, self.lines, self.invariants)
        instance_id, topics = self._some_instance(group, name, new=new_protocol)
        if new_protocol:
            regex = "par.*|extra-.*" if random.random() < 0.2 else None
            self.members.append(
                ConsumerSimMember(*parts, topics=topics, regex=regex, instance_id=instance_id)
            )
            return
        self.members.append(
            ClassicSimMember(
                *parts,
                topics=topics,
                instance_id=instance_id,
                cooperative=group == COOPERATIVE,
                rebalance_ms=random.choice([15_000, 40_000]),
                join_version=9 if instance_id is not None else random.randint(4, 9),
            )
        )

    def _some_topics(self) -> list[str]:
        names = list(self.coordinator.topics.all_names())
        return self.random.sample(names, self.random.randint(1, len(names)))

    def _some_instance(self, group: str, name: str, *, new: bool) -> tuple[str | None, list[str]]:
        """The instance id of a new or rejoining member, and its subscription."""
        if self.random.random() < 0.6:
            return None, self._some_topics()
        free = sorted(each for each in self._instances[group] if each.startswith("new") == new)
        if free and self.random.random() < 0.7:
            instance_id = self.random.choice(free)
            return instance_id, self._instances[group].pop(instance_id)
        return f"{'new' if new else 'old'}-{name}", self._some_topics()

    def _leave(self, member: SimMember) -> None:
        member.leave()
        self._remember_instance(member)

    def _kill(self, member: SimMember) -> None:
        member.kill()
        self._remember_instance(member)

    def _remember_instance(self, member: SimMember) -> None:
        if member.instance_id is not None:
            topics = member.joined_topics if isinstance(member, ClassicSimMember) else member.topics
            self._instances[member.group_id][member.instance_id] = topics

    def _subscribe(self, member: SimMember) -> None:
        member.subscribe(self._some_topics())

    def _downgrade(self) -> None:
        """Downgrade the mixed group: its members of the new protocol leave."""
        for member in self._alive(MIXED):
            if isinstance(member, ConsumerSimMember):
                self._leave(member)

    # -- operators -------------------------------------------------------------------------------------------

    def _add_partition(self) -> None:
        topics = self.coordinator.topics
        name = self.random.choice(sorted(topics.all_names()))
        topic = topics.by_name(name)
        assert topic is not None
        if topic.partition_count < 9:
            self.coordinator.change_topics(topics.with_topic(name, topic.partition_count + 1), name)

    def _create_topic(self) -> None:
        self._topics_created += 1
        name = f"extra-{self._topics_created}"
        topics = self.coordinator.topics.with_topic(name, self.random.randint(1, 4))
        self.coordinator.change_topics(topics, name)

    def _delete_topic(self) -> None:
        topics = self.coordinator.topics
        extra = sorted(name for name in topics.all_names() if name.startswith("extra-"))
        if extra:
            name = self.random.choice(extra)
            self.invariants.topic_deleted(name)
            self.coordinator.change_topics(topics.without(name), name)

    def _restart(self) -> None:
        if self.random.random() < 0.5:
            self.coordinator.log.compact()
        down_ms = self.random.randint(0, 20_000)
        if self.random.random() < 0.5:
            self.coordinator.crash(down_ms)
        else:
            self.coordinator.move(down_ms)
