"""Run seeds about groups: `python -m tests.simulation.group_run --seed N [--count K]`.

As `tests.simulation.run`, with members of one group instead of producers and tail readers.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from unittest import mock

import sparklog.groups.group_state as group_state
from tests.simulation.group_actors import GroupHistory, make_topic, start_members
from tests.simulation.group_checker import check_group
from tests.simulation.group_mutants import GROUP_MUTANTS, GroupMutant
from tests.simulation.run import Result, _eager_clean_up, _no_garbage_collection, _quiet_logs
from tests.simulation.world import World

SHORT_LOG = {"delta.checkpointInterval": "3", "delta.logRetentionDuration": "interval 20 seconds"}


def run_group_seed(seed: int, mutant: GroupMutant | None = None) -> Result:
    """Run one seed, on the code as it is or on a mutant of it."""
    started = time.perf_counter()
    history = GroupHistory()
    with contextlib.ExitStack() as stack:
        stack.enter_context(_no_garbage_collection())
        stack.enter_context(_quiet_logs())
        if mutant is not None:
            stack.enter_context(mutant())
        world = World(seed)
        if world.plan.clean_up:
            stack.enter_context(_eager_clean_up())
        if world.seed % 2:
            stack.enter_context(mock.patch.object(group_state, "CONFIGURATION", SHORT_LOG))
        world.faults.enabled = False
        make_topic(world)
        world.faults.enabled = True
        start_members(world, history)
        error: BaseException | None = None
        try:
            world.scheduler.run()
        except Exception as caught:
            error = caught
        problems = check_group(history, world.store.journal)
    scheduler = world.scheduler
    return Result(
        seed=seed,
        problems=problems,
        error=error,
        trace_hash=scheduler.trace_hash,
        counts={"reads": len(history.reads), **dict(sorted(history.counts.items()))},
        faults=dict(world.faults.fired),
        steps=scheduler.steps,
        kills=scheduler.kills,
        stalls=scheduler.stalls,
        seconds=time.perf_counter() - started,
    )


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.group_run")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1, help="how many seeds")
    parser.add_argument("--mutant", choices=sorted(GROUP_MUTANTS), help="run a broken variant")
    parser.add_argument("--stop", action="store_true", help="stop at the first failure")
    options = parser.parse_args()
    mutant = GROUP_MUTANTS[options.mutant] if options.mutant else None
    failed = 0
    for seed in range(options.seed, options.seed + options.count):
        result = run_group_seed(seed, mutant)
        print(result, flush=True)
        failed += result.failed
        if failed and options.stop:
            break
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
