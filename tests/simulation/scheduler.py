"""A seeded scheduler: many actors, of which exactly one runs at a time.

Actors are real threads that hand a baton on at every store call and every sleep, so the seed alone
fixes the interleaving, and with it the whole run. The scheduler also owns time and death:

    ready --baton--> running --store call--> ready          (another actor may go first)
      ^                 |------clock.sleep--> asleep --time reached--> ready
      |                 |------stall--------> asleep        (SIGSTOP: it did not ask for it)
      |                 '------kill---------> dying         (Killed is raised in it)
      '--spawn                                  |
                                              ended         (so does an actor whose body returned)

Guarantees:
1. Time stands still while any actor is ready; when all are asleep it jumps to the first to wake.
2. Every store call and sleep of a killed actor raises `Killed` again, so that no clean-up code of
   a client can do what a killed process could not.
3. Each step goes into the trace hash: equal seeds have equal hashes, or something in the code
   under test is not deterministic.
4. A run that takes too many steps, or that blocks outside the scheduler, ends with an error.
"""

from __future__ import annotations

import faulthandler
import hashlib
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass

DAY_MS = 86_400_000
EPOCH_MS = 1_700_000_000_000
BLOCKED_SECONDS_MAX = 60.0


class Killed(BaseException):
    """Ends an actor as kill -9 does: not an Exception, so that no handler swallows it."""


class SimulationStuckError(AssertionError):
    """The run does not end: somebody waits for ever, or retries for ever (I17)."""


@dataclass(frozen=True)
class Odds:
    """How a run is scheduled; chances are per step."""

    switch: float = 0.5
    """Another actor goes on; else the same one, so that long undisturbed stretches occur too."""
    kill: float = 0.0
    """A mortal actor dies."""
    stall: float = 0.0
    """An actor is stopped for a while."""
    stall_seconds_max: float = 5.0
    steps_max: int = 200_000


class Actor:
    """One thread under the scheduler."""

    def __init__(self, name: str, body: Callable[[], None], mortal: bool) -> None:
        """A body to run; only a mortal actor is ever killed by chance."""
        self.name = name
        self.mortal = mortal
        self.killed = False
        self.steps = 0
        self.wake_at = 0.0
        self.error: BaseException | None = None
        self.baton = threading.Semaphore(0)
        self.body = body
        self.thread: threading.Thread | None = None


class Scheduler:
    """Runs actors to their end, one at a time, by a seed."""

    def __init__(self, rng: random.Random, odds: Odds | None = None) -> None:
        """Draw every decision from `rng`."""
        self.odds = odds or Odds()
        self.now = 0.0
        self.steps = 0
        self.kills = 0
        self.stalls = 0
        self.calm = False
        """Set once faults stop: nobody is killed or stalled any more."""
        self.trace: list[str] | None = None
        self._rng = rng
        self._hash = hashlib.sha256()
        self._actors: list[Actor] = []
        self._all: list[Actor] = []
        self._current: Actor | None = None
        self._ended = threading.Event()
        self._failure: BaseException | None = None

    @property
    def trace_hash(self) -> str:
        """A digest of every step so far."""
        return self._hash.hexdigest()[:16]

    @property
    def current_name(self) -> str:
        """Who runs now; `main` outside a run."""
        return self._current.name if self._current else "main"

    def spawn(self, name: str, body: Callable[[], None], *, mortal: bool = False) -> Actor:
        """Add an actor, before the run or from inside a running actor."""
        actor = Actor(name, body, mortal)
        actor.wake_at = self.now
        actor.thread = threading.Thread(target=self._live, args=(actor,), name=name, daemon=True)
        self._actors.append(actor)
        self._all.append(actor)
        actor.thread.start()
        return actor

    def run(self) -> None:
        """Run until every actor has ended; raises what any of them raised, except `Killed`."""
        if self._actors:
            self._ended.clear()
            self._pass_on(None)
            before = -1
            while not self._ended.wait(BLOCKED_SECONDS_MAX):
                if self.steps == before:
                    faulthandler.dump_traceback()
                    raise SimulationStuckError(
                        f"{self.current_name} has blocked outside the scheduler for "
                        f"{BLOCKED_SECONDS_MAX:.0f} s at step {self.steps}"
                    )
                before = self.steps
        for actor in self._all:
            if actor.thread is not None:
                actor.thread.join()
        self._all.clear()
        self._current = None
        if self._failure is not None:
            raise self._failure

    def step(self, op: str, key: str) -> None:
        """A store call of the running actor: note it, and perhaps let another go first."""
        actor = self._current
        if actor is None or threading.current_thread() is not actor.thread:
            return  # the test itself looks at the store, outside the run
        self._check_alive(actor)
        self.note(op, key)
        actor.steps += 1
        self._check_steps()
        odds = self.odds
        if not self.calm and actor.mortal and self._rng.random() < odds.kill:
            self.kill(actor)
            self._check_alive(actor)
        if not self.calm and self._rng.random() < odds.stall:
            self.stalls += 1
            self.note("stalled", "")
            self._sleep(actor, self._rng.random() * odds.stall_seconds_max)
        elif self._rng.random() < odds.switch:
            self._hand_over(actor)

    def sleep(self, seconds: float) -> None:
        """Put the running actor to sleep until its time has come."""
        actor = self._current
        if actor is None or threading.current_thread() is not actor.thread:
            self.now += max(0.0, seconds)
            return
        self._check_alive(actor)
        self.note("sleep", f"{seconds:.6f}")
        self._check_steps()
        self._sleep(actor, seconds)

    def kill(self, actor: Actor) -> None:
        """Let an actor die at its next step."""
        if not actor.killed:
            actor.killed = True
            actor.wake_at = min(actor.wake_at, self.now)
            self.kills += 1
            self.note("killed", actor.name)

    def note(self, what: str, detail: str) -> None:
        """Put one line into the trace."""
        self.steps += 1
        line = f"{self.steps} {self.now:.6f} {self.current_name} {what} {detail}"
        self._hash.update(line.encode())
        if self.trace is not None:
            self.trace.append(line)

    def _check_alive(self, actor: Actor) -> None:
        if actor.killed:
            raise Killed(actor.name)

    def _check_steps(self) -> None:
        if self.steps > self.odds.steps_max and self._failure is None:
            self._failure = SimulationStuckError(
                f"no end after {self.steps} steps; alive: {[a.name for a in self._actors]}"
            )
            for actor in self._actors:
                self.kill(actor)

    def _sleep(self, actor: Actor, seconds: float) -> None:
        actor.wake_at = self.now + max(0.0, seconds)
        self._hand_over(actor)

    def _hand_over(self, actor: Actor) -> None:
        """Let somebody go on, perhaps this very actor; returns when it is its turn again."""
        if self._pass_on(actor):
            actor.baton.acquire()
        self._check_alive(actor)

    def _pass_on(self, running: Actor | None) -> bool:
        """Give the baton to one who is ready; False if it stays where it is."""
        ready = [actor for actor in self._actors if actor.wake_at <= self.now]
        if not ready:
            self.now = min(actor.wake_at for actor in self._actors)
            ready = [actor for actor in self._actors if actor.wake_at <= self.now]
        chosen = ready[self._rng.randrange(len(ready))]
        if chosen is running:
            return False
        self._current = chosen
        chosen.baton.release()
        return True

    def _live(self, actor: Actor) -> None:
        """An actor's thread: wait for the first turn, run, leave."""
        actor.baton.acquire()
        try:
            self._check_alive(actor)
            actor.body()
        except Killed:
            pass
        except BaseException as error:
            actor.error = error
            if self._failure is None:
                self._failure = error
                for other in self._actors:
                    self.kill(other)
        self.note("ended", actor.name)
        self._actors.remove(actor)
        if self._actors:
            self._pass_on(None)
        else:
            self._ended.set()


class SimClock:
    """One actor's clock: the scheduler's time, with a wall clock that may be wrong."""

    def __init__(self, scheduler: Scheduler, skew_ms: int = 0, backwards: bool = False) -> None:
        """A wall clock that is off by `skew_ms`, or that even runs backwards."""
        self._scheduler = scheduler
        self._skew_ms = skew_ms
        self._direction = -1 if backwards else 1

    def now_ms(self) -> int:
        """The wall clock as this actor sees it."""
        return EPOCH_MS + self._skew_ms + self._direction * int(self._scheduler.now * 1000)

    def monotonic(self) -> float:
        """The scheduler's time: monotonic clocks of one machine agree and never go back."""
        return self._scheduler.now

    def sleep(self, seconds: float) -> None:
        """Let others run until that time."""
        self._scheduler.sleep(seconds)


class SimIds:
    """Ids and jitter by a seed of one's own, so that one actor's draws never move another's."""

    def __init__(self, seed: str) -> None:
        """Equal seeds give equal ids: give each actor and incarnation its own."""
        self._rng = random.Random(seed)

    def unique(self) -> str:
        """Thirty-two hexadecimal digits."""
        return f"{self._rng.getrandbits(128):032x}"

    def uniform(self) -> float:
        """A number in [0, 1)."""
        return self._rng.random()
