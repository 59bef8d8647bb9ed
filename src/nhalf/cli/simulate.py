"""`nhalf simulate`: a collective message by message, or a decode loop with a straggler."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from nhalf.cli import completing, output_formats
from nhalf.errors import InputError


class _Operations(click.Group):
    """A group whose commands are the operations, with `decode` as the one that is not a collective."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the two forms of the command."""
        del ctx
        return ["collective", "decode"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the decode loop, or the collective for any other word."""
        del ctx
        if cmd_name == "decode":
            from nhalf.cli.simulate_decode import decode

            return completing.prepare(decode)
        return completing.prepare(collective)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Keep the operation as the first argument of the collective."""
        word = args[0]
        if word in ("decode", "collective"):
            return word, self.get_command(ctx, word), args[1:]
        return word, self.get_command(ctx, word), args


@click.group(cls=_Operations, invoke_without_command=True, no_args_is_help=False)
@click.pass_context
def simulate(context: click.Context) -> None:
    """Simulate OP (all-reduce, all-gather, ...), a schedule.json, or `decode MODEL`, message by message.

    The flags of both: `nhalf simulate all-reduce --help`, `nhalf simulate decode --help`.
    """
    if context.invoked_subcommand is None:
        from nhalf.simulate.programs import PROGRAMS

        raise InputError(
            "what to simulate is missing",
            where="nhalf simulate",
            allowed=f"{', '.join(PROGRAMS)}, a schedule.json, or decode MODEL",
            do="try nhalf simulate all-reduce --ranks 8 --size 16KiB --on h100-sxm --algorithm all",
        )


@click.command(name="collective")
@click.argument("op", metavar="OP | SCHEDULE.json")
@click.option("--ranks", metavar="K", help="How many ranks take part.")
@click.option("--size", metavar="SIZE", help="Bytes as nccl-tests counts them, such as 16KiB.")
@click.option("--on", "system", metavar="SYSTEM", help="A system of the catalogue, instead of a link.")
@click.option("--link", metavar="LINK", help="A link: 5us,400GB/s, or a name of `nhalf catalog links`.")
@click.option("--latency", metavar="TIME", help="Latency of a message on the link, with --bandwidth.")
@click.option("--bandwidth", metavar="RATE", help="Bandwidth of a rank's port, one direction.")
@click.option("--algorithm", metavar="LIST", help="Algorithms, or all; nvls on multicast.  [default: the usual one]")
@click.option("--ports", default="fifo", show_default=True, metavar="WORD", help="fifo, fair or blocking.")
@click.option("--protocol", default="rendezvous", show_default=True, metavar="WORD", help="rendezvous or eager.")
@click.option("--topology", metavar="WORD", help="switch, multicast, mesh, ring, torus, tree, nodes, rails.  [switch]")
@click.option("--ranks-per-node", metavar="G", help="Ranks in a node, a leaf of the tree or a row of the torus.")
@click.option(
    "--oversubscription", metavar="R", help="What a leaf's ranks, or NICs of a rail, send over what its uplink carries."
)
@click.option("--nics", metavar="N", help="NICs of a node.  [default: one for each rank]")
@click.option("--nodes-per-leaf", metavar="M", help="Nodes whose n-th NICs share a leaf of rail n.  [default: all]")
@click.option("--inter-latency", metavar="TIME", help="Latency between nodes, with --inter-bandwidth.")
@click.option("--inter-bandwidth", metavar="RATE", help="Bandwidth of a NIC.")
@click.option("--hop-latency", metavar="TIME", help="Latency of each hop beyond the first.")
@click.option("--reduction-rate", metavar="RATE", help="Bytes per second that a rank adds up.  [default: no time]")
@click.option(
    "--straggler", "stragglers", multiple=True, metavar="TEXT",
    help="'rank 3: 20us', 'rank 3: 1.15x' or 'rank 3: link 2x'; may be repeated.",
)  # fmt: skip
@click.option("--draws", metavar="N", help="Simulate N draws of the ranks' start times, with --skew.")
@click.option("--skew", metavar="KIND", help="exponential:10us, normal:10us, hiccup:1%:1ms, pareto:2.5:10us or a file.")
@click.option("--seed", metavar="N", help="Seed of the draws.  [default: 1]")
@click.option("--routing", metavar="S", help="Skew of expert routing: rank d draws (d + 1)^-S.")
@click.option("--timeline", metavar="FILE", help="Write a Chrome trace, which Perfetto opens.")
@output_formats.option
def collective(op: str, timeline: str | None, **flags: Any) -> None:  # noqa: ANN401  click's values
    """Simulate a collective, or a schedule of your own, message by message.

    \b
    Eight nodes on rails, whose leaves of four nodes are oversubscribed 2 to 1:
      nhalf simulate all-reduce --ranks 64 --size 64MiB --link 2us,400GB/s --topology rails --ranks-per-node 8 \\
        --nodes-per-leaf 4 --oversubscription 2 --inter-latency 8us --inter-bandwidth 50GB/s --algorithm hierarchical
    """  # noqa: D301  click's mark of a paragraph as it is
    from nhalf.cli.simulate_runs import show, show_draws
    from nhalf.loading.simulating import session

    path = Path(timeline) if timeline else None
    if path is not None and (path.is_dir() or not path.parent.is_dir()):
        why = "it is a folder" if path.is_dir() else f"there is no folder {path.parent}"
        raise InputError(f"{timeline} cannot be written: {why}", where="--timeline", do="name a file, such as out.json")
    asked = session(op, flags)
    if flags["draws"] or flags["skew"]:
        if timeline:
            what = "a timeline shows one run, and --draws makes many"
            raise InputError(what, where="--timeline", do="leave out --skew")
        show_draws(asked)
        return
    show(asked, timeline=path)
