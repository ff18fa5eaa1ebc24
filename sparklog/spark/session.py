"""A Spark session that just works: this interpreter, the settings that matter, Delta when asked.

Guarantees:

1. Spark's Python processes run this interpreter, with the virtual environment active or not, and
   `format("sparklog")` is known to the session.
2. What the caller says wins over what spark-submit was told, and that over sparklog's defaults.
3. A session that already runs, also one of Spark Connect, is handed back, or refused if it lacks
   the Delta that was asked for.

What it does not do: it brings no jars for S3, and it sizes no cluster.
"""

from __future__ import annotations

import importlib.metadata
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession
from pyspark.version import __version__ as pyspark_version

from sparklog.errors import InvalidConfigError, UnsupportedError
from sparklog.spark.data_source import register
from sparklog.spark.settings import (
    DELTA_EXCLUDED,
    DELTA_SETTINGS,
    LOCAL_DELTA_SETTINGS,
    LOCAL_SETTINGS,
    SETTINGS,
    has_delta,
)

SCALA = "2.13"

_PACKAGES = "spark.jars.packages"
_EXCLUDES = "spark.jars.excludes"
_S3A = {
    "endpoint": "spark.hadoop.fs.s3a.endpoint",
    "region": "spark.hadoop.fs.s3a.endpoint.region",
    "key": "spark.hadoop.fs.s3a.access.key",
    "secret": "spark.hadoop.fs.s3a.secret.key",
    "token": "spark.hadoop.fs.s3a.session.token",
    "path_style": "spark.hadoop.fs.s3a.path.style.access",
}


def session(
    app_name: str | None = None,
    master: str | None = None,
    delta: bool = False,
    s3: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
) -> SparkSession:
    """A session, new or the one that runs. Without a master: spark-submit's, else this machine.

    `s3` configures Hadoop's S3 client, which Delta tables and query checkpoints on s3a:// use:
    endpoint, region, key, secret, token, path_style. `config` is any Spark settings.
    """
    wished = {name: _text(value) for name, value in (config or {}).items()}
    wished |= s3a_settings(s3 or {})
    running = SparkSession.getActiveSession()
    if running is not None:
        return _checked(_apply(running, wished), delta)
    submitted = _submitted()
    if app_name is not None:
        wished["spark.app.name"] = app_name
    if master is not None:
        wished["spark.master"] = master
    place = wished.get("spark.master") or submitted.get("spark.master") or "local[*]"
    _use_this_python(place, submitted | wished)
    settings = default_settings(place, delta) | submitted | wished
    if delta:
        settings[_PACKAGES] = _join(settings.get(_PACKAGES), delta_package())
        excluded = (f"{group}:*" for group in DELTA_EXCLUDED)
        settings[_EXCLUDES] = _join(settings.get(_EXCLUDES), *excluded)
    builder = SparkSession.builder.master(place).appName("sparklog")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return _checked(builder.getOrCreate(), delta)


def default_settings(master: str, delta: bool = False) -> dict[str, str]:
    """What sparklog sets when nobody says otherwise."""
    settings = dict(SETTINGS)
    if delta:
        settings |= DELTA_SETTINGS
    if is_local(master):
        settings |= LOCAL_SETTINGS
        if delta:
            settings |= LOCAL_DELTA_SETTINGS
    return settings


def delta_package() -> str:
    """Delta's Maven coordinates: the release of the Python package, for this Spark and Scala."""
    try:
        release = importlib.metadata.version("delta-spark")
    except importlib.metadata.PackageNotFoundError:
        raise UnsupportedError(
            "session(delta=True) needs delta-spark: pip install 'sparklog[spark]'"
        ) from None
    major, minor, *_ = pyspark_version.split(".")
    return f"io.delta:delta-spark_{major}.{minor}_{SCALA}:{release}"


def is_local(master: str) -> bool:
    """Whether driver and workers are one process. local-cluster[...] is not: it has several."""
    return master == "local" or master.startswith("local[")


def s3a_settings(s3: Mapping[str, Any]) -> dict[str, str]:
    """Hadoop's names for the S3 options; an unknown option is an error that lists them."""
    unknown = sorted(set(s3) - set(_S3A))
    if unknown:
        raise InvalidConfigError(
            f"s3 has no option {unknown[0]!r}; known: {', '.join(_S3A)}. Anything else goes into "
            "config under its full name, spark.hadoop.fs.s3a..."
        )
    settings = {_S3A[name]: _text(value) for name, value in s3.items() if value is not None}
    endpoint = s3.get("endpoint")
    if endpoint:
        secure = urlsplit(str(endpoint)).scheme != "http"
        settings["spark.hadoop.fs.s3a.connection.ssl.enabled"] = _text(secure)
        settings.setdefault(_S3A["path_style"], "true")  # servers other than AWS rarely do without
    return settings


def _submitted() -> dict[str, str]:
    """The settings that spark-submit was given, if it started this program."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def _use_this_python(master: str, settings: Mapping[str, str]) -> None:
    """Name the interpreter before the JVM starts: it takes the python3 of its PATH otherwise.

    On a cluster PYSPARK_PYTHON, when set, is the workers' interpreter and stays. A data source is
    planned on the driver with the same words, so they must mean an interpreter there too.
    """
    if is_local(master):
        python = sys.executable
    else:
        named = os.environ.get("PYSPARK_PYTHON") or settings.get("spark.pyspark.python")
        python = named or sys.executable
    if os.sep in python and not Path(python).exists():
        folder = Path(python).parts[0]
        raise InvalidConfigError(
            f"PYSPARK_PYTHON = {python} is not here, and the driver plans reads with it as well. "
            f"Make it so: ln -s {sys.prefix} {folder}, or unpack the workers' archive as {folder}"
        )
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = python


def _apply(running: SparkSession, wished: Mapping[str, str]) -> SparkSession:
    """Give a running session the settings that can still change; say which cannot."""
    for name, value in wished.items():
        if running.conf.get(name, None) == value:
            continue
        if not running.conf.isModifiable(name):
            raise InvalidConfigError(
                f"{name} = {value} cannot be set on a session that runs already: stop it with "
                "spark.stop() first"
            )
        running.conf.set(name, value)
    return running


def _checked(spark: SparkSession, delta: bool) -> SparkSession:
    """The session, with the format registered where Spark's JVM would not find it by itself."""
    if delta and not has_delta(spark):
        raise UnsupportedError(
            "Delta was asked for, but Spark was started without it, and a JVM that runs takes no "
            f"more jars: build the process's first session with session(delta=True), or give "
            f"spark-submit --packages {delta_package()}"
        )
    jvm: Any = getattr(spark, "_jvm", None)
    if jvm is None:
        return spark  # Spark Connect: what the server was started with is its own affair
    found_by = jvm.System.getenv("PYSPARK_DRIVER_PYTHON") or jvm.System.getenv("PYSPARK_PYTHON")
    if found_by != os.environ.get("PYSPARK_PYTHON", sys.executable):
        register(spark)
    return spark


def _join(*names: str | None) -> str:
    return ",".join(filter(None, names))


def _text(value: object) -> str:
    """A value as Spark reads it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
