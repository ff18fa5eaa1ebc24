"""The entry of the command `sparklog`.

Nothing here, nor at the top of the commands' modules, imports the client library: Arrow is loaded
when a command opens the log, so that help and usage errors come at once.

Exit codes: 0 done, 1 sparklog could not do it (one line on standard error says why; `--debug`
shows the traceback), 2 wrong usage.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from sparklog import __version__
from sparklog.cli.consume import consume
from sparklog.cli.dump import dump
from sparklog.cli.groups import app as groups
from sparklog.cli.output import flush
from sparklog.cli.produce import produce
from sparklog.cli.topics import app as topics
from sparklog.errors import SparklogError

_ANYWHERE = ("--log", "--debug")

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # brackets in help are brackets
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(topics, name="topics")
app.add_typer(groups, name="groups")
app.command()(produce)
app.command()(consume)
app.command()(dump)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"sparklog {__version__}")
        raise typer.Exit


@app.callback()
def root(
    log: Annotated[
        str | None,
        typer.Option(
            metavar="ROOT",
            help="The log: a path or s3://bucket/prefix. Else SPARKLOG_ROOT, "
            "else root under [log] in conf/sparklog.toml.",
        ),
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """A streaming log without brokers: every topic is a Delta table.

    --log and --debug may also stand after the command.
    """


def main() -> int:
    """Run the command line; returns or exits with the exit code."""
    arguments = _common_first(sys.argv[1:])
    try:
        app(arguments, prog_name="sparklog")
    except SparklogError as error:
        if "--debug" in arguments:
            raise
        print(f"sparklog: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    finally:
        flush()
    return 0


def _common_first(arguments: list[str]) -> list[str]:
    """Move `--log` and `--debug` before the verb: people write them at the end as well."""
    common: list[str] = []
    rest: list[str] = []
    queue = list(arguments)
    while queue:
        word = queue.pop(0)
        if word == "--":
            return [*common, *rest, word, *queue]
        if word.partition("=")[0] not in _ANYWHERE:
            rest.append(word)
            continue
        common.append(word)
        if word == "--log" and queue:
            common.append(queue.pop(0))
    return [*common, *rest]


if __name__ == "__main__":
    sys.exit(main())
