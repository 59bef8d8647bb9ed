"""What a bare `nhalf` says: the questions that people come with, and where the commands are."""

from __future__ import annotations

from typing import Final

QUESTIONS: Final = (
    ("Is TP over more GPUs worth it?", "nhalf decode MODEL --on SYSTEM"),
    ("Which layout for my GPUs and limit?", "nhalf plan MODEL --on SYSTEM --gpus 16"),
    ("Faster NICs, NVLink or HBM?", "nhalf buy MODEL --on SYSTEM"),
    ("Is my cluster normal?", "nhalf doctor nccl-tests.log"),
    ("Who slows my run down?", "nhalf trace profiles/"),
)
"""What people come with, and the command that answers."""
_ROOMS: Final = (
    ("predict", "decode  plan  buy  whatif  compare  crossover  sweep"),
    ("measure", "measure  lab  fit  doctor  topo  trace  live  tune  lint"),
    ("your data", "predict  validate  calibrate"),
    ("look up", "app  link  collective  simulate  catalog  explain"),
)


def welcome() -> str:
    """Return what a bare `nhalf` says."""
    wide = max(len(question) for question, _ in QUESTIONS)
    asked = [f"  {question:<{wide}}  {command}" for question, command in QUESTIONS]
    rooms = [f"{room:<11} {commands}" for room, commands in _ROOMS]
    return "\n".join(
        [
            "nhalf says what the network costs your LLM, and what would change it.", "", "Which question is yours?",
            *asked, "", *rooms, "",
            "nhalf help COMMAND shows its options and two examples. nhalf explain WORD",
            "says what a word means. nhalf --help lists every command.", "",
        ]
    )  # fmt: skip
