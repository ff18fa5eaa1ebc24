"""`sparklog topics`: create, list, describe, alter and delete topics."""

from __future__ import annotations

import dataclasses
import sys
from typing import Annotated

import typer

from sparklog.cli.output import show_time, write_json, write_line, write_table
from sparklog.cli.settings import open_log, parse_pairs

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Create, list, describe, alter and delete topics.",
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The topic.")]
Json = Annotated[bool, typer.Option("--json", help="JSON, for programs.")]
Config = Annotated[
    list[str] | None, typer.Option("--config", metavar="K=V", help="A topic configuration value.")
]


@app.command()
def create(
    context: typer.Context,
    name: Name,
    partitions: Annotated[int, typer.Option(help="How many partitions.")] = 1,
    config: Config = None,
) -> None:
    """Create a topic, and the log if there is none yet."""
    values = parse_pairs(config or [], "--config")
    with open_log(context, create=True) as log:
        log.create_topic(name, partitions, values)
    write_line(f"created topic {name} with {partitions} partition{'s'[: partitions != 1]}")


@app.command("list")
def list_topics(context: typer.Context, as_json: Json = False) -> None:
    """List the topics."""
    with open_log(context) as log:
        topics = [log.topic(name).describe() for name in log.topics()]
    if as_json:
        write_json(
            [
                {"name": t.name, "partitions": len(t.partitions), "records": t.records}
                for t in topics
            ]
        )
        return
    rows = [
        (t.name, len(t.partitions), t.records, sum(p.bytes for p in t.partitions)) for t in topics
    ]
    write_table(("topic", "partitions", "records", "bytes"), rows)


@app.command()
def describe(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """Show a topic's partitions, offsets, sizes and configuration."""
    with open_log(context) as log:
        topic = log.topic(name).describe()
    if as_json:
        write_json({**dataclasses.asdict(topic), "records": topic.records})
        return
    write_line(f"topic    {topic.name}")
    write_line(f"id       {topic.id}")
    write_line(f"created  {show_time(topic.created_ms)}")
    write_line(f"version  {topic.version}")
    write_line(f"records  {topic.records}")
    write_table(
        ("partition", "start offset", "end offset", "segments", "bytes"),
        [dataclasses.astuple(partition) for partition in topic.partitions],
    )
    write_table(
        ("configuration", "value", "set by"),
        [
            (key, value, "topic" if key in topic.overrides else "default")
            for key, value in sorted(topic.config.items())
        ],
    )


@app.command()
def alter(
    context: typer.Context,
    name: Name,
    config: Config = None,
    unset: Annotated[
        list[str] | None, typer.Option(metavar="K", help="Take a value back to its default.")
    ] = None,
    partitions: Annotated[int | None, typer.Option(help="Grow to this many partitions.")] = None,
) -> None:
    """Change a topic's configuration, or grow it to more partitions."""
    changes: dict[str, object | None] = dict(parse_pairs(config or [], "--config"))
    both = sorted(changes.keys() & set(unset or []))
    if both:
        raise typer.BadParameter(f"{both[0]!r} is both set and unset", param_hint="--unset")
    changes |= dict.fromkeys(unset or [])
    if not changes and partitions is None:
        raise typer.BadParameter("nothing to change: give --config, --unset or --partitions")
    with open_log(context) as log:
        topic = log.topic(name)
        if changes:
            topic.alter_config(changes)
            write_line(f"changed {', '.join(sorted(changes))} of topic {name}")
        if partitions is not None:
            topic.add_partitions(partitions)
            write_line(f"topic {name} has {partitions} partitions")


@app.command()
def delete(
    context: typer.Context,
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete a topic and all its records."""
    if not yes and not sys.stdin.isatty():
        raise typer.BadParameter("deleting a topic needs --yes", param_hint="--yes")
    with open_log(context) as log:
        log.topic(name)
        if not yes:
            typer.confirm(f"Delete topic {name} and all its records?", abort=True)
        log.delete_topic(name)
    write_line(f"deleted topic {name}")
