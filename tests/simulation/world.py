"""One run's world: the scheduler, the faulty store with its journal, the history, the plan.

Everything random in a run comes from the seed, through one generator per purpose, so that a
change in one actor's draws does not move another's.
"""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass

from sparklog.clients.log import Log
from sparklog.errors import StoreError
from sparklog.storage import PutOutcome
from sparklog.storage.memory_store import FaultRates, Faults, MemoryStore
from tests.simulation.history import History
from tests.simulation.replay import Change
from tests.simulation.scheduler import DAY_MS, Odds, Scheduler, SimClock, SimIds

MAIN = "main"
CHURN = "churn"


class SimStore(MemoryStore):
    """A faulty store that keeps a journal of every effect, for the checker."""

    def __init__(self, faults: Faults, scheduler: Scheduler) -> None:
        """A store whose every call is a step of the scheduler."""
        super().__init__(faults, clock=SimClock(scheduler), on_call=scheduler.step)
        self.journal: list[Change] = []
        self.answers: dict[int, PutOutcome] = {}
        """The last answer to a conditional put, by thread: mutants look at it."""
        self._scheduler = scheduler

    def put_if_absent(self, key: str, data: bytes, *, durable: bool = True) -> PutOutcome:
        """Put, and note the answer in the trace."""
        outcome = super().put_if_absent(key, data, durable=durable)
        self.answers[threading.get_ident()] = outcome
        self._scheduler.note(outcome.value, key)
        return outcome

    def _change(self, key: str, data: bytes | None) -> None:
        super()._change(key, data)
        self.journal.append(Change(self._scheduler.steps, key, data))


@dataclass(frozen=True)
class Plan:
    """What a run consists of: drawn from the seed."""

    rates: FaultRates
    odds: Odds
    partitions: int
    auto_producers: int
    named_producers: int
    twins: bool
    """Two incarnations of one named producer start at the same moment."""
    churn: bool
    """A topic is deleted and created again under its producers and consumers."""
    admin: bool
    """Partitions are added and configuration is changed."""
    skew: bool
    """Wall clocks are a day off, or run backwards."""
    clean_up: bool
    """Old commits are deleted early, so that their slots are open again."""
    forgetful: bool
    """Clients that follow a table forget its files almost at once."""
    checkpoint_interval: int
    batches: int
    delivery_timeout_ms: int
    request_timeout_ms: int


def draw_plan(seed: int) -> Plan:
    """The plan of a seed."""
    rng = random.Random(f"plan {seed}")
    clean_up = rng.random() < 0.3
    return Plan(
        rates=_draw_rates(rng),
        odds=Odds(
            switch=rng.choice([0.05, 0.3, 0.7, 1.0]),
            kill=rng.choice([0.0, 0.002, 0.01]),
            stall=rng.choice([0.0, 0.0, 0.002, 0.02]),
            stall_seconds_max=rng.choice([0.5, 5.0]) if not clean_up else 5.0,
        ),
        partitions=rng.randint(1, 3),
        auto_producers=rng.randint(1, 3),
        named_producers=rng.randint(0, 2),
        twins=rng.random() < 0.5,
        churn=rng.random() < 0.4,
        admin=rng.random() < 0.5,
        skew=not clean_up and rng.random() < 0.4,
        clean_up=clean_up,
        forgetful=random.Random(f"forgetful {seed}").random() < 0.4,
        checkpoint_interval=rng.choice([2, 3, 5, 100]),
        batches=rng.randint(3, 8),
        delivery_timeout_ms=rng.choice([300, 2_000, 20_000]),
        request_timeout_ms=rng.choice([50, 500, 5_000]),
    )


def _draw_rates(rng: random.Random) -> FaultRates:
    """From no fault at all to a store that hardly works."""
    level = rng.choice([0.0, 0.01, 0.05, 0.15])

    def rate() -> float:
        return level * rng.random() * 2 if rng.random() < 0.7 else 0.0

    return FaultRates(
        put_lost=rate(),
        put_unanswered=rate(),
        put_later=rate(),
        put_retried=rate(),
        put_conflict=rate(),
        put_refused=rate() / 3,
        full=rate() / 3,
        write_lost=rate() / 2,
        write_unanswered=rate() / 2,
        write_later=rate() / 2,
        read=rate(),
        storm=rate() / 20,
        land=rng.choice([0.01, 0.1, 0.5]),
    )


class World:
    """What the actors of one run share."""

    def __init__(self, seed: int, plan: Plan | None = None) -> None:
        """The world of a seed."""
        self.seed = seed
        self.plan = plan or draw_plan(seed)
        self.history = History()
        self.scheduler = Scheduler(random.Random(f"schedule {seed}"), self.plan.odds)
        self.faults = Faults(random.Random(f"faults {seed}"), self.plan.rates)
        self.store = self.make_store()
        self.writers = 0
        """Actors that still write; the director waits for them."""
        self.quiet = False
        """Set when faults and writers have stopped."""

    def make_store(self) -> SimStore:
        """The store; a mutant makes its own."""
        return SimStore(self.faults, self.scheduler)

    @property
    def step(self) -> int:
        """The order that all share."""
        return self.scheduler.steps

    def rng(self, name: str) -> random.Random:
        """A generator of one's own."""
        return random.Random(f"{name} {self.seed}")

    def clock(self, name: str) -> SimClock:
        """An actor's clock, wrong if the plan says so."""
        if not self.plan.skew:
            return SimClock(self.scheduler)
        rng = self.rng(f"clock {name}")
        return SimClock(
            self.scheduler, rng.choice([0, DAY_MS, -DAY_MS]), backwards=rng.random() < 0.25
        )

    def open_log(self, name: str) -> Log:
        """A log handle of one's own, as another process would have it; waits for the store."""
        clock, ids = self.clock(name), SimIds(f"{name} {self.seed}")
        while True:
            try:
                return Log(self.store, clock, ids)
            except StoreError:
                self.pause(0.05)

    def pause(self, seconds: float) -> None:
        """Let others run."""
        self.scheduler.sleep(seconds)
