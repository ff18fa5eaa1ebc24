"""The examples of the how-to run as they stand, one after the other."""

from __future__ import annotations

import re

from tests.support.spark_session import REPOSITORY

HOWTO = REPOSITORY / "docs" / "howto" / "spark.md"


def test_examples_of_the_howto_run_and_large_orders_are_copied(spark, log, tmp_path, capfd):
    log.create_topic("orders", partitions=4)
    blocks = re.findall(r"^```python\n(.*?)^```", HOWTO.read_text(), re.M | re.S)
    assert len(blocks) == 6
    names = {"log": log, "root": str(tmp_path / "log")}
    for block in blocks[:4]:
        exec(compile(block, str(HOWTO), "exec"), names)
    assert names["spark"] is spark
    assert sum(log.end_offsets("large-orders").values()) == 10
    for block in blocks[4:]:
        exec(compile(block, str(HOWTO), "exec"), names)
    assert sum(log.end_offsets("large-orders").values()) == 110
    assert "|partition|last|" in capfd.readouterr().out


def test_settings_of_the_howto_are_all_that_are_set():
    from sparklog.spark.session import default_settings
    from sparklog.spark.settings import DELTA_SETTINGS

    text = HOWTO.read_text()
    for name in set(default_settings("local[2]", delta=True)) - set(DELTA_SETTINGS):
        assert f"`{name}=" in text, name
