"""`nhalf plan`: which layout to run on so many devices, and the line that launches it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from nhalf.cli import flags, output, output_formats, page_file, plan_next
from nhalf.cli.help_pages import Grouped
from nhalf.decide.candidates import GOALS
from nhalf.loading.planning import SEARCHED, Limits, named, planned
from nhalf.report import plan as report
from nhalf.report import plan_brief
from nhalf.report import plan_several as several
from nhalf.report.plan import document
from nhalf.report.view import View

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.loading.planning import Planned
    from nhalf.report.page import Page
    from nhalf.report.plan_several import Named


@click.command(cls=Grouped)
@click.argument("model", required=False)
@click.option("--gpus", metavar="N", help="Devices to use, all of them.  [default: a node]")
@click.option("--tpot", metavar="TIME", help="The longest time per token: 20ms.")
@click.option("--odds", metavar="P", help="Keep --tpot and --ttft with this probability: 90%.  [default: even odds]")
@click.option("--ttft", metavar="TIME", help="The longest time to the first token: 1s.")
@click.option("--goal", metavar="|".join(GOALS), default=GOALS[0], show_default=True, help="What to have most of.")
@click.option("--price", metavar="$[,$]", help="Dollars for each GPU and hour: '$2.5'; one for each system of --on.")
@click.option("--launch", "line", metavar="LINE", help="A launch line of vllm, sglang or trtllm to judge.")
@click.option("--pools", is_flag=True, help="Look at prefill and decode on devices of their own, too.")
@click.option("--all", "every", is_flag=True, help="With --json, --csv or --md: every layout at every batch.")
@flags.inputs("plan")
@page_file.option
@output_formats.option
def plan(model: str | None, line: str | None, every: bool, pages: tuple[str, ...], **given: Any) -> None:  # noqa: ANN401  click's
    """Choose the layout to serve MODEL on so many devices: every legal one at every batch that fits, ranked.

    MODEL is a name, a config.json, a scenario.toml, or a launch line to judge. A degree (--tp 4,8) narrows the search.
    Context parallelism is looked at for prompts of 32,768 tokens or more.
    """
    limits = {name: given.pop(name) for name in ("gpus", "tpot", "ttft", "goal", "price", "odds", "pools")}
    name, launched = named(model, line, given["engine"])
    request = flags.request(name, {**given, **dict.fromkeys(SEARCHED)})
    found = planned(request, {name: given[name] for name in SEARCHED}, Limits(**limits, launched=launched))
    plans = [(each.system, each.plan, _asked(each)) for each in found]
    for warning in dict.fromkeys(warning for each in found for warning in each.warnings):
        output.warn(warning)
    if any(each.plan.candidates for each in found):
        _write(plans, every, [each.price for each in found])
        page_file.write(pages, lambda: _page(plans))
    several.require_answers(plans)


def _asked(each: Planned) -> report.Asked:
    """Return what the answer of one system says beside its numbers."""
    return report.Asked(
        system=each.system,
        defaults=each.defaults,
        warnings=each.warnings,
        launched=each.launched,
        served_model=each.served_model,
        next_command=plan_next.decoding(each.plan, each.request, each.skew),
        suggestion=each.suggestion,
    )


def _write(plans: Sequence[Named], every: bool, prices: Sequence[str | None]) -> None:
    """Write the answer in the form that was asked for."""
    (_, found, asked), alone = plans[0], len(plans) == 1

    def made() -> dict[str, Any]:
        return document(found, asked, every=every) if alone else several.document(plans, every=every)

    if alone:
        view = View(
            document=made,
            rows="rows",
            brief=lambda: plan_brief.brief(found, asked),
            below=lambda canvas: report.write(found, asked, canvas),
            defaults=asked.defaults,
            found=found,
        )
    else:
        after = plan_next.alone(plans, prices)
        view = View(
            document=made,
            rows="rows",
            brief=lambda: plan_brief.several(plans, next_command=after.partition("  # ")[0]),
            below=lambda canvas: several.write(plans, canvas),
            following=[after],
        )
    output_formats.show(view)


def _page(plans: Sequence[Named]) -> Page:
    """Return the page of the plans; its module is loaded only when one is asked for."""
    from nhalf.report.plan_page import page

    return page([(found, asked) for _, found, asked in plans], several.comparison(plans) if len(plans) > 1 else "")
