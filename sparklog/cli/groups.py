"""`sparklog groups`: look at consumer groups, move their offsets, end them.

What changes offsets only shows its plan unless `--execute` is given.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparklog.cli.consume import parse_start
from sparklog.cli.output import show_time, write_json, write_line, write_table
from sparklog.cli.settings import open_log

if TYPE_CHECKING:
    from sparklog.clients.group_description import OffsetChange

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="List, describe, reset, copy and delete consumer groups.",
)

Name = Annotated[str, typer.Argument(metavar="GROUP", help="The group.")]
Json = Annotated[bool, typer.Option("--json", help="JSON, for programs.")]
Execute = Annotated[bool, typer.Option("--execute", help="Do it; else only show the plan.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


@app.command("list")
def list_groups(context: typer.Context, as_json: Json = False) -> None:
    """List the groups."""
    with open_log(context) as log:
        groups = [log.group(name).describe() for name in log.groups()]
    if as_json:
        write_json(
            [
                {"name": g.name, "state": g.state, "members": len(g.members), "lag": g.lag}
                for g in groups
            ]
        )
        return
    rows = [(g.name, g.state, len(g.members), g.lag) for g in groups]
    write_table(("group", "state", "members", "lag"), rows)


@app.command()
def describe(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """Show a group's members, and the lag of every partition."""
    with open_log(context) as log:
        group = log.group(name).describe()
    if as_json:
        write_json({**dataclasses.asdict(group), "lag": group.lag})
        return
    write_line(f"group       {group.name}")
    write_line(f"state       {group.state}")
    write_line(f"generation  {group.generation}")
    write_line(f"strategy    {group.strategy or '-'}")
    write_line(f"lag         {group.lag}")
    write_table(
        ("topic", "partition", "committed", "end", "lag", "member", "committed at", "metadata"),
        [
            (
                p.topic,
                p.partition,
                "-" if p.offset is None else p.offset,
                p.log_end,
                p.lag,
                p.member_id or "-",
                "-" if p.committed_ms is None else show_time(p.committed_ms),
                p.metadata,
            )
            for p in group.partitions
        ],
    )
    write_table(
        ("member", "client", "instance", "partitions", "to come"),
        [
            (
                m.member_id,
                m.client_id or "-",
                m.instance_id or "-",
                len(m.assignment),
                len(set(m.target) - set(m.assignment)),
            )
            for m in group.members
        ],
    )


@app.command("reset-offsets")
def reset_offsets(
    context: typer.Context,
    name: Name,
    topic: Annotated[str | None, typer.Option(help="Only this topic.")] = None,
    partition: Annotated[
        list[int] | None, typer.Option(min=0, help="Only this partition; may be repeated.")
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(help="earliest, latest, an offset, an ISO time (UTC unless it says) or @ms."),
    ] = None,
    shift_by: Annotated[int | None, typer.Option(help="So many records; back if negative.")] = None,
    by_duration: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="To so long before now.")
    ] = None,
    execute: Execute = False,
    as_json: Json = False,
) -> None:
    """Move the offsets of a group that has no members."""
    arguments: dict[str, Any] = {}
    if to is not None:
        kind, number = parse_start(to)
        if kind == "time":
            arguments["to_timestamp_ms"] = number
        else:
            arguments["to"] = number if kind == "offset" else kind
    if shift_by is not None:
        arguments["shift_by"] = shift_by
    if by_duration is not None:
        arguments["by_duration_ms"] = int(by_duration * 1000)
    if len(arguments) != 1:
        raise typer.BadParameter("give exactly one of --to, --shift-by and --by-duration")
    with open_log(context) as log:
        changes = log.group(name).reset_offsets(
            topic, partition or None, **arguments, dry_run=not execute
        )
    _show_changes(changes, execute, as_json)


@app.command("copy-offsets")
def copy_offsets(
    context: typer.Context,
    name: Name,
    other: Annotated[str, typer.Argument(metavar="TO", help="The group that gets them.")],
    topic: Annotated[
        list[str] | None, typer.Option(help="Only this topic; may be repeated.")
    ] = None,
    execute: Execute = False,
    as_json: Json = False,
) -> None:
    """Give another group, which must have no members, this one's offsets."""
    with open_log(context) as log:
        changes = log.group(name).copy_offsets_to(other, topic or None, dry_run=not execute)
    _show_changes(changes, execute, as_json)


@app.command()
def delete(context: typer.Context, name: Name, yes: Yes = False) -> None:
    """Delete a group that has no members, and its offsets."""
    if not yes and not sys.stdin.isatty():
        raise typer.BadParameter("deleting a group needs --yes", param_hint="--yes")
    with open_log(context) as log:
        group = log.group(name)
        group.describe()
        if not yes:
            typer.confirm(f"Delete group {name} and its offsets?", abort=True)
        group.delete()
    write_line(f"deleted group {name}")


@app.command()
def history(
    context: typer.Context,
    name: Name,
    last: Annotated[int, typer.Option(min=1, help="At most so many, the newest.")] = 100,
    as_json: Json = False,
) -> None:
    """Show every offset commit that the group's log still holds, with the lag of that moment."""
    with open_log(context) as log:
        table = log.group(name).history()
    rows = table.slice(max(0, table.num_rows - last)).to_pylist()
    for row in rows:
        row["time_ms"] = int(row.pop("time").timestamp() * 1000)
    if as_json:
        for row in rows:
            write_json(row)
        return
    columns = ("topic", "partition", "offset", "log_end", "lag", "member")
    write_table(
        ("time", *columns),
        [(show_time(row["time_ms"]), *(_shown(row[column]) for column in columns)) for row in rows],
    )


def _show_changes(changes: Sequence[OffsetChange], executed: bool, as_json: bool) -> None:
    if as_json:
        write_json({"executed": executed, "changes": [dataclasses.asdict(c) for c in changes]})
        return
    rows = [(c.topic, c.partition, _shown(c.before), _shown(c.after)) for c in changes]
    write_table(("topic", "partition", "before", "after"), rows)
    if not executed:
        write_line("nothing was changed; --execute does it")


def _shown(value: object) -> object:
    return "-" if value is None else value
