"""The examples of the how-to run as they stand, one after the other."""

from __future__ import annotations

import re
from pathlib import Path

HOWTO = Path(__file__).parents[2] / "docs/howto/consumer_groups.md"
RECORDS = 30


def test_examples_of_the_howto_run_and_each_group_gets_every_record(log):
    log.create_topic("orders", partitions=3)
    with log.producer() as producer:
        for number in range(RECORDS):
            producer.send("orders", b"%d" % number, key=b"%d" % number)
    blocks = re.findall(r"^```python\n(.*?)^```", HOWTO.read_text(), re.M | re.S)
    assert len(blocks) == 6
    handled = []
    names = {"log": log, "handle": handled.append, "print": lambda *_: None}
    for block in blocks[:-1]:
        handled.clear()
        exec(compile(block, str(HOWTO), "exec"), names)
        assert len({(r.partition, r.offset) for r in handled}) == len(handled) == RECORDS
    for group in ("billing", "at-most-once", "at-least-once", "told"):
        assert sum(log.group(group).offsets().values()) == RECORDS, group
    exec(compile(blocks[-1], str(HOWTO), "exec"), names)
    assert sum(log.group("at-least-once").offsets().values()) == 0
    assert "shadow" not in log.groups() and names["lag_over_time"].num_rows >= 3
