"""`nhalf simulate decode`: a decode loop with a device or a link that is behind."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from nhalf import loading, units
from nhalf.cli import following, forms, output
from nhalf.cli.flags import LIBRARY
from nhalf.cli.simulate import count, needed
from nhalf.cli.simulate_progress import Progress
from nhalf.decide import instead, pacing
from nhalf.decide.comparison import compare
from nhalf.errors import InputError
from nhalf.report import simulate_decode as report
from nhalf.simulate import straggler
from nhalf.simulate.program import MOST_AT_ONCE

if TYPE_CHECKING:
    from nhalf.simulate.straggler import Straggler


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
@forms.option
def decode(model: str, **flags: Any) -> None:  # noqa: ANN401  click's values
    """Simulate MODEL decoding while a device is throttled, jitters or has a flapping link."""
    study = _read(model, flags)
    paces, interrupted = study.play()
    if paces:
        _print(study, paces, interrupted, _next(flags))
    if interrupted:
        output.warn(f"partial: {interrupted}; {len(paces)} of {1 + len(study.groups)} runs are shown")
        raise click.Abort


def _print(study: _Study, paces: list[pacing.Pace], partial: str, next_commands: tuple[str, ...]) -> None:
    """Print the answer."""
    made, tokens = study.made, study.tokens
    if forms.write(lambda: report.document(made, paces, tokens=tokens, partial=partial), "runs"):
        return
    canvas = output.canvas()
    slow = [one.text for group in study.groups[: len(paces) - 1] for one in group if one.what == "slow"]
    told = list(dict.fromkeys(slow)) if forms.everything() else []
    report.write(made, paces, canvas, tokens=tokens, slow=told, partial=partial)
    canvas.following(*next_commands)
    output.write(canvas.text)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Study:
    """What a command line asks for, read and checked: a loop, and the stragglers each alone and then together."""

    made: pacing.Loop
    tokens: int
    seed: int
    jitter_s: float
    groups: tuple[tuple[Straggler, ...], ...]

    def play(self) -> tuple[list[pacing.Pace], str]:
        """Return the undisturbed pace and that of each group with its remedies, and where an interrupt came."""
        others = instead.alternatives(self.made) if self.groups else ()
        played = len(self.groups) * sum(one.loop.collectives for one in others)
        total = self.tokens * (self.made.collectives * (1 + len(self.groups)) + played)
        paces: list[pacing.Pace] = []
        with Progress("decode loop", total, what="collectives") as progress:
            options: dict[str, Any] = {"tokens": self.tokens, "seed": self.seed, "jitter_s": self.jitter_s}
            options["progress"] = progress.advance
            try:
                paces.append(pacing.pace(self.made, (), **options))
                for group in self.groups:
                    paces.append(pacing.pace(self.made, group, **options))
                    paces[-1] = replace(paces[-1], remedies=instead.remedies(others, group, **options))
            except KeyboardInterrupt:
                return paces, progress.words
        return paces, ""


def _read(model: str, flags: dict[str, Any]) -> _Study:
    """Return the study that the flags describe.

    Raises
    ------
    InputError
        A missing or impossible flag.
    NoAnswerError
        The model does not fit in the memory of the devices.
    """
    degree = units.parse_count(flags["tp"], where="--tp")
    named = {key: flags[key] for key in ("weights", "kv", "engine", "library", "mode") if flags[key]}
    scenario = loading.load(
        model,
        on=needed({"on": flags["system"]}, "on", "h100-sxm"),
        tp=degree,
        batch=count(flags, "batch", 1),
        context=count(flags, "context", 1024),
        **named,
    )
    made = pacing.loop(scenario, flags["algorithm"] or "")
    compare([scenario]).require_fit()
    jitter = units.parse(flags["jitter"], "time", where="--jitter") if flags["jitter"] else 0.0
    found = [straggler.parse(text, degree) for text in flags["stragglers"]]
    if flags["seed"] and not (jitter or any(one.chance < 1 or one.what == "jitter" for one in found)):
        raise InputError(
            f"--seed {flags['seed']} would do nothing: nothing is random here",
            where="--seed",
            do="add --jitter 2us or --straggler 'rank 1: link 8x 5%', or leave it out",
        )
    return _Study(
        made=made,
        tokens=_tokens(flags, degree),
        seed=count(flags, "seed", 1),
        jitter_s=jitter,
        groups=(*((one,) for one in found), *((tuple(found),) if len(found) > 1 else ())),
    )


def _tokens(flags: dict[str, Any], ranks: int) -> int:
    """Return how many tokens are decoded.

    Raises
    ------
    InputError
        There are more than memory holds, with a time for each rank.
    """
    tokens, most = count(flags, "tokens", 200), MOST_AT_ONCE // ranks
    if tokens > most:
        raise InputError(
            f"{tokens:,} tokens of {ranks} ranks are {tokens * ranks:,} times to keep",
            where="--tokens",
            allowed=f"1 to {most:,}",
        )
    return tokens


def _next(flags: dict[str, Any]) -> tuple[str, ...]:
    """Return the commands to run next."""
    if flags["stragglers"]:
        return (following.command("decode", {"--tp": flags["tp"], "--explain": True}) + "  # the undisturbed step",)
    stragglers = [{"--straggler": "rank 1: 1.15x"}, {"--straggler": "rank 1: link 8x 5%"}]
    jitters = [] if flags["jitter"] else [{"--jitter": "2us"}]
    return tuple(following.command("simulate decode", changed) for changed in [*stragglers, *jitters])
