"""`nhalf simulate decode`: a decode loop with a device or a link that is behind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from nhalf.cli import next_command, output, output_formats
from nhalf.cli.flags import LIBRARY
from nhalf.cli.progress import Progress
from nhalf.decide import pacing, straggler_remedies
from nhalf.loading.simulated_loop import LoopStudy, loop_study
from nhalf.report import simulate_decode as report


@click.command()
@click.argument("model")
@click.option("--on", "system", metavar="SYSTEM", help="A system of the catalogue.")
@click.option("--tp", default="8", show_default=True, metavar="K", help="Tensor-parallel degree: the group that loops.")
@click.option("--batch", metavar="N", help="Sequences that decode together.  [default: 1]")
@click.option("--context", metavar="N", help="Tokens in the cache of each sequence.  [default: 1024]")
@click.option("--weights", metavar="DTYPE", help="bf16, fp8, int8, int4, nvfp4, mxfp4.  [default: the config's]")
@click.option("--kv", metavar="DTYPE", help="Cache dtype: bf16, fp8.  [default: as the config says]")
@click.option("--engine", metavar="NAME", help="vllm, sglang, trtllm.  [default: vllm]")
@click.option("--library", metavar="NAME", help=LIBRARY)
@click.option("--mode", metavar="MODE", help="graph, eager or host.  [default: graph]")
@click.option("--tokens", metavar="N", help="Decode steps.  [default: 200]")
@click.option(
    "--straggler",
    "stragglers",
    multiple=True,
    metavar="TEXT",
    help="'rank 3: 1.15x' or '... 15%' (all its work), '... 20us', '... link 8x 5%', '... jitter 5us'; repeat it.",
)
@click.option("--jitter", metavar="TIME", help="Jitter of every rank's work between two collectives, on average.")
@click.option("--algorithm", metavar="NAME", help="All-reduce.  [default: one-shot, hierarchical across nodes]")
@click.option("--seed", metavar="N", help="Seed of what is random.  [default: 1]")
@output_formats.option
def decode(model: str, **flags: Any) -> None:  # noqa: ANN401  click's values
    """Simulate MODEL decoding while a device is throttled, jitters or has a flapping link."""
    study = loop_study(model, flags)
    paces, interrupted = _play(study)
    if paces:
        _print(study, paces, interrupted, _next(flags))
    if interrupted:
        output.warn(f"partial: {interrupted}; {len(paces)} of {1 + len(study.groups)} runs are shown")
        raise click.Abort


def _print(study: LoopStudy, paces: list[pacing.Pace], partial: str, next_commands: tuple[str, ...]) -> None:
    made, tokens = study.made, study.tokens
    if output_formats.write(lambda: report.document(made, paces, tokens=tokens, partial=partial), "runs"):
        return
    canvas = output.canvas()
    slow = [one.text for group in study.groups[: len(paces) - 1] for one in group if one.what == "slow"]
    told = list(dict.fromkeys(slow)) if output_formats.everything() else []
    report.write(made, paces, canvas, tokens=tokens, slow=told, partial=partial)
    canvas.following(*next_commands)
    output.write(canvas.text)


def _play(study: LoopStudy) -> tuple[list[pacing.Pace], str]:
    """Return the undisturbed pace and that of each group with its remedies, and where an interrupt came."""
    others = straggler_remedies.alternatives(study.made) if study.groups else ()
    played = len(study.groups) * sum(one.loop.collectives for one in others)
    total = study.tokens * (study.made.collectives * (1 + len(study.groups)) + played)
    paces: list[pacing.Pace] = []
    with Progress("decode loop", total, what="collectives") as progress:
        options: dict[str, Any] = {"tokens": study.tokens, "seed": study.seed, "jitter_s": study.jitter_s}
        options["progress"] = progress.advance
        try:
            paces.append(pacing.pace(study.made, (), **options))
            for group in study.groups:
                paces.append(pacing.pace(study.made, group, **options))
                paces[-1] = replace(paces[-1], remedies=straggler_remedies.remedies(others, group, **options))
        except KeyboardInterrupt:
            return paces, progress.words
    return paces, ""


def _next(flags: dict[str, Any]) -> tuple[str, ...]:
    """Return the commands to run next."""
    if flags["stragglers"]:
        return (next_command.command("decode", {"--tp": flags["tp"], "--explain": True}) + "  # the undisturbed step",)
    stragglers = [{"--straggler": "rank 1: 1.15x"}, {"--straggler": "rank 1: link 8x 5%"}]
    jitters = [] if flags["jitter"] else [{"--jitter": "2us"}]
    return tuple(next_command.command("simulate decode", changed) for changed in [*stragglers, *jitters])
