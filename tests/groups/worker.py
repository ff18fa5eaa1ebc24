"""A member in a process of its own: `python -m tests.groups.worker ROOT TOLD [config as JSON]`.

Writes a line for each record it got and each commit it made, with the machine's monotonic time,
by one write each, so that a kill -9 loses nothing that was said.
"""

from __future__ import annotations

import json
import os
import sys
import time

import sparklog
from sparklog.clients.rebalance_listener import RebalanceListener


def main() -> None:
    root, told_path, config = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    told = os.open(told_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def tell(what: str, **fields: object) -> None:
        body = {"what": what, "at": time.monotonic(), **fields}
        os.write(told, (json.dumps(body) + "\n").encode())

    class Listener(RebalanceListener):
        def on_partitions_assigned(self, partitions):
            tell("assigned", partitions=[p for _, p in partitions])

        def on_partitions_revoked(self, partitions):
            consumer.commit()
            tell("revoked", partitions=[p for _, p in partitions])

        def on_partitions_lost(self, partitions):
            tell("lost", partitions=[p for _, p in partitions])

    log = sparklog.connect(root, create=False)
    consumer = log.consumer(auto_offset_reset="earliest", enable_auto_commit=False, **config)
    consumer.subscribe(["orders"], listener=Listener())
    while True:
        records = consumer.poll(200)
        if records:
            tell("read", places=[(r.partition, r.offset) for r in records])
            consumer.commit()
            tell("committed", places=[(r.partition, r.offset) for r in records])


if __name__ == "__main__":
    main()
