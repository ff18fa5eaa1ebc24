"""Run seeds: `python -m tests.simulation.run --seed N [--count K] [--mutant NAME] [--trace]`.

Prints one line a seed: what was done, which faults fired, the verdict and the trace hash. A seed
that fails replays exactly: run it again and compare the hash. Exit code 1 if any seed failed.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import gc
import logging
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from unittest import mock

import sparklog.log.housekeeping as housekeeping_module
import sparklog.table.live_files as live_files
from sparklog.table.clean_up import clean_up
from tests.simulation.actors import make_topics, start_all
from tests.simulation.checker import Problem, check
from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.world import World

VERSIONS_KEPT = 2
PROBLEMS_SHOWN = 10


@dataclass(frozen=True)
class Result:
    """What became of one seed."""

    seed: int
    problems: list[Problem]
    error: BaseException | None
    trace_hash: str
    counts: dict[str, int]
    faults: dict[str, int]
    steps: int
    kills: int
    stalls: int
    seconds: float
    trace: list[str] | None = None

    @property
    def failed(self) -> bool:
        """Whether an invariant was broken, or an actor met an error that it should not."""
        return bool(self.problems) or self.error is not None

    def __str__(self) -> str:
        """One line, and one for each of the first problems."""
        ops = " ".join(f"{name}={count}" for name, count in self.counts.items())
        fired = " ".join(f"{name}={count}" for name, count in sorted(self.faults.items()))
        verdict = "FAILED" if self.failed else "ok"
        head = (
            f"seed {self.seed}: {verdict} trace {self.trace_hash} | {ops} | steps={self.steps} "
            f"kills={self.kills} stalls={self.stalls} | {fired or 'no faults'} | "
            f"{self.seconds:.2f} s"
        )
        lines = [head, *(f"  {problem}" for problem in self.problems[:PROBLEMS_SHOWN])]
        if len(self.problems) > PROBLEMS_SHOWN:
            lines.append(f"  and {len(self.problems) - PROBLEMS_SHOWN} more")
        if self.error is not None:
            lines.append(f"  {type(self.error).__name__}: {self.error}")
        return "\n".join(lines)


def run_seed(seed: int, mutant: Mutant | None = None, trace: bool = False) -> Result:
    """Run one seed, on the code as it is or on a mutant of it."""
    started = time.perf_counter()
    with contextlib.ExitStack() as stack:
        stack.enter_context(_no_garbage_collection())
        stack.enter_context(_quiet_logs())
        make_world = World if mutant is None else stack.enter_context(mutant())
        world = make_world(seed)
        if world.plan.clean_up:
            stack.enter_context(_eager_clean_up())
        if world.plan.forgetful:
            stack.enter_context(mock.patch.object(live_files, "CHANGES_FOLLOWED_MAX", 2))
        if trace:
            world.scheduler.trace = []
        world.faults.enabled = False
        make_topics(world)
        world.faults.enabled = True
        start_all(world)
        error: BaseException | None = None
        try:
            world.scheduler.run()
        except Exception as caught:
            error = caught
        problems = check(world.history, world.store.journal)
    scheduler = world.scheduler
    return Result(
        seed=seed,
        problems=problems,
        error=error,
        trace_hash=scheduler.trace_hash,
        counts=world.history.counts(),
        faults=dict(world.faults.fired),
        steps=scheduler.steps,
        kills=scheduler.kills,
        stalls=scheduler.stalls,
        seconds=time.perf_counter() - started,
        trace=scheduler.trace,
    )


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Cycles die between runs only, so that no finaliser runs at a moment of its own choice."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextlib.contextmanager
def _quiet_logs() -> Iterator[None]:
    """Faults are expected here: nobody needs to be told."""
    previous = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(previous)


@contextlib.contextmanager
def _eager_clean_up() -> Iterator[None]:
    """Every checkpoint cleans up, and keeps hardly anything: slots open again at once."""
    eager = functools.partial(clean_up, versions_kept=VERSIONS_KEPT)
    with (
        mock.patch.object(housekeeping_module, "CHECKPOINTS_PER_CLEAN_UP", 1),
        mock.patch.object(housekeeping_module, "clean_up", eager),
    ):
        yield


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.run", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1, help="how many seeds")
    parser.add_argument("--mutant", choices=sorted(MUTANTS), help="run a broken variant")
    parser.add_argument("--trace", action="store_true", help="print every step")
    parser.add_argument("--stop", action="store_true", help="stop at the first failure")
    options = parser.parse_args()
    mutant = MUTANTS[options.mutant] if options.mutant else None
    failed = 0
    for seed in range(options.seed, options.seed + options.count):
        result = run_seed(seed, mutant, options.trace)
        if result.trace is not None:
            print("\n".join(result.trace))
        print(result, flush=True)
        failed += result.failed
        if failed and options.stop:
            break
    if options.count > 1:
        print(f"{failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
