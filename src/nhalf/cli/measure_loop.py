"""The loops of `nhalf measure --model`: what is asked, and what is answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nhalf import units
from nhalf.cli import flags, output_formats
from nhalf.errors import InputError, WeakEvidenceError
from nhalf.evidence.probe.looping import OVERLAP
from nhalf.loading.inputs import BY_NAME
from nhalf.loading.looping import STAND_IN, loops
from nhalf.report import measure_loop as report
from nhalf.report.view import View

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nhalf.evidence.probe.ranks import Place
    from nhalf.loading.looping import Loops
    from nhalf.report.measure import Answer

INPUTS = ("tp", "pp", "ep", "attention_dp", "batch", "system")


def asked(model: str | None, said: Mapping[str, Any], given: Mapping[str, Any], place: Place | None) -> Loops | None:
    """Return the loops that flags ask for, None without a model; `given` are the other flags of the command.

    Raises
    ------
    InputError
        An input is no model's, or none of a model.
    """
    compute = given["compute"]
    if model is None:
        stray = next((BY_NAME[name].on_command_line for name in INPUTS if said[name]), None)
        if stray or compute:
            raise InputError(
                "it is of a model's messages", where=stray or "--compute", do="add --model, or leave it out"
            )
        return None
    degrees = any(said[name] for name in INPUTS[:4])
    own = place.size if place else given["ranks"] or 2
    values = {**said, "tp": said["tp"] if degrees else str(own), "system": said["system"] or STAND_IN}
    fused = units.parse_int_list(given["fuse"], where="--fuse") if given["fuse"] else ()
    variants = [f"fuse {count}" for count in fused if count > 1] + [OVERLAP] * given["overlap"]
    request = flags.request(model, values)
    if len(request.systems) > 1:
        raise InputError("ranks run on one system", where="--on", allowed="one name")
    return loops(request, on=bool(said["system"]), compute=compute, variants=tuple(variants))


def answer(found: Answer, asked_for: Loops) -> None:
    """Write the answer. Raises WeakEvidenceError where nothing was measured."""
    from nhalf.evidence.probe.loop_answer import of_run

    loop = of_run(found.run)
    if loop is None:
        raise WeakEvidenceError("no token was timed", where="--budget", do="give it longer: --budget 2min")
    predicted = {key: (each.communication_s, each.rest_s) for key, each in asked_for.predicted.items()}
    whole = report.Answer(loop=loop, of_run=found, model=asked_for.model, system=asked_for.system, predicted=predicted)
    output_formats.show(
        View(
            document=lambda: report.document(whole),
            rows=report.rows,
            brief=lambda: report.brief(whole),
            detail=lambda canvas: report.detail(whole, canvas),
        )
    )
