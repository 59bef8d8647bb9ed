"""Engines: each is one class, its lines are read back as the layout they are of, and no other file names it."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nhalf.catalog import files, store
from nhalf.cli import run
from nhalf.decide.launch_lines import Served, lines, runs_on
from nhalf.engines import ENGINES, of_backend
from nhalf.engines.served import PLACEHOLDER
from nhalf.layout import Layout
from nhalf.loading import launch
from nhalf.loading.inputs import BY_NAME
from nhalf.loading.kv_rule import assumed_kv

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(store.__file__).resolve().parents[1]
STILL_NAMED = {
    "loading/inputs.py": "the default engine, and the help of --engine",
    "loading/defaults.py": "the default engine, until it is read from the table of inputs",
    "loading/request.py": "the default engine, until it is read from the table of inputs",
    "loading/collective.py": "the default library of a collective",
    "report/crossover.py": "the library whose crossover leads",
    "predict/routed.py": "names of measured exchange kernels",
    "cli/collective.py": "help", "cli/calibrate.py": "help", "cli/simulate_decode.py": "help", "cli/plan.py": "help",
    "loading/bench/__init__.py": "the formats that are allowed",
    "live/reading.py": "iteration statistics, which one engine alone writes",
}  # fmt: skip
"""Files that name an engine in a text, and why."""
NAMED = re.compile(rf"\b({'|'.join(ENGINES)})\b|^({'|'.join(ENGINES)})_")


def texts(path: Path) -> Iterator[str]:
    """Yield every text of a module that is no docstring."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield node.value


def test_no_other_file_names_an_engine() -> None:
    naming = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if any(NAMED.search(text) for text in texts(path))
    }
    assert {f"engines/{name}.py" for name in ENGINES} <= naming
    assert {name for name in naming if not name.startswith("engines/")} <= set(STILL_NAMED)


def test_engines_are_those_of_the_catalogue_and_bring_its_library() -> None:
    entries = files.tables("stacks.toml")["engines"]
    libraries = files.tables("libraries.toml")["libraries"]
    for name, engine in ENGINES.items():
        assert name in entries
        assert entries[name]["library"] == name
        assert engine.title in libraries[name]["title"]
    assert BY_NAME["engine"].default in ENGINES


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Draw a layout of a model with experts."""
    degree = st.sampled_from((1, 2, 4, 8))
    tp, dp = draw(degree), draw(degree)
    ep = draw(st.sampled_from([each for each in (1, 2, 4, 8, 16, 32, 64) if (tp * dp) % each == 0]))
    sends = dp > 1 and ep == tp * dp and draw(st.booleans())
    return Layout(
        tensor_parallel=tp, attention_dp=dp, expert_parallel=ep,
        pipeline_parallel=draw(st.sampled_from((1, 2, 3, 8))), context_parallel=draw(st.sampled_from((1, 1, 1, 2))),
        routed_exchange="all-to-all" if sends else "all-gather",
    )  # fmt: skip


def degrees(layout: Layout) -> tuple[object, ...]:
    """Return what a launch line says of a layout."""
    return (
        layout.tensor_parallel, layout.pipeline_parallel, layout.expert_parallel, layout.attention_dp,
        layout.context_parallel, layout.replicas, layout.routed_exchange,
    )  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
@given(
    layout=layouts(), each=st.integers(1, 512), node=st.sampled_from((4, 8, 72)),
    formats=st.tuples(st.sampled_from(("bf16", "fp8")), st.sampled_from(("", "fp8", "nvfp4"))),
)  # fmt: skip
def test_what_an_engine_runs_is_read_back_from_its_line(
    engine: str,
    layout: Layout,
    each: int,
    node: int,
    formats: tuple[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    batch, (kv, weights) = each * layout.attention_dp, formats
    served = Served(model="m/x", batch=batch, tokens=4096, kv_dtype=kv, quantised=weights, mixture=True,
                    devices_per_node=node)  # fmt: skip
    line = lines(layout, served)[engine]
    assert bool(line.command) == runs_on(layout, engine) == (not line.reason)
    if not line.command:
        return
    options = [also for also in line.also if also.startswith("options.yaml: ")]
    path = tmp_path_factory.getbasetemp() / "options.yaml"
    path.write_text("".join(options).removeprefix("options.yaml: ").replace("; ", "\n"), encoding="utf-8")
    read = launch.read(line.command.replace("options.yaml", str(path)))
    taken = layout if ENGINES[engine].exchange_is_a_flag else replace(layout, routed_exchange="all-gather")
    assert degrees(read.layout) == degrees(taken)
    assert (read.engine, read.model, read.batch, read.eager, read.notes) == (engine, "m/x", batch, False, ())
    assert (read.kv == "fp8") == (kv == "fp8" and not options)
    assert (read.weights == "fp8") == (weights == "fp8" and not options)


@pytest.mark.parametrize(
    ("asked", "launched"),
    [
        ("llama-3.3-70b", "meta-llama/Llama-3.3-70B-Instruct"),
        ("Llama 3.3 70B", "meta-llama/Llama-3.3-70B-Instruct"),
        ("llama-3-70b", "meta-llama/Meta-Llama-3-70B"),
        ("llama-3.1-70b", "meta-llama/Llama-3.1-70B"),
        ("deepseek-v3.1", "deepseek-ai/DeepSeek-V3.1"),
        ("llama-3.3-nemotron-super-49b", "nvidia/Llama-3_3-Nemotron-Super-49B-v1"),
        ("meta-llama/Meta-Llama-3-8B-Instruct", "meta-llama/Meta-Llama-3-8B-Instruct"),
        ("nvidia/GLM-5-NVFP4", "nvidia/GLM-5-NVFP4"),
        ("mine.toml", PLACEHOLDER),
        ("./models/mine/config.json", PLACEHOLDER),
    ],
)
def test_a_line_launches_the_model_that_was_asked_for(asked: str, launched: str) -> None:
    assert launch.checkpoint_of(asked) == launched


def test_every_name_of_the_catalogue_is_launched_as_a_repository_of_that_model() -> None:
    aliases = files.aliases()["model"]
    for model in store.names("model"):
        for asked in (model, *aliases.get(model, ())):
            assert store.find("model", launch.checkpoint_of(asked), where="MODEL") == model, asked


def test_a_folder_is_launched_as_model_with_a_note_what_that_is(tmp_path: Path) -> None:
    assert launch.checkpoint_of(str(tmp_path)) == PLACEHOLDER
    served = Served(model=PLACEHOLDER, batch=8, tokens=4096, kv_dtype="bf16", quantised="", mixture=False,
                    devices_per_node=8)  # fmt: skip
    for line in lines(Layout(tensor_parallel=8), served).values():
        assert PLACEHOLDER in line.command
        assert line.also[0] == "MODEL the path of the checkpoint, or its repository"
    named = lines(Layout(tensor_parallel=8), replace(served, model="m/x"))
    assert not any("MODEL " in also for line in named.values() for also in line.also)


@pytest.mark.parametrize(
    ("backend", "engine"),
    [
        ("vllm", "vllm"),
        ("openai", ""),
        ("sglang-oai", "sglang"),
        ("tensorrt-llm", "trtllm"),
        ("trt", "trtllm"),
        ("", ""),
    ],
)
def test_backends_of_benchmarks_are_known(backend: str, engine: str) -> None:
    assert of_backend(backend) == engine


@pytest.mark.parametrize("name", ENGINES)
def test_the_cache_of_a_quantised_model_is_what_its_engine_defaults_to(name: str) -> None:
    dtype, origin = assumed_kv(weights="int8", engine=name, architecture="hopper")
    assert dtype == (ENGINES[name].quantised_kv or "bf16")
    assert bool(ENGINES[name].quantised_kv) == (ENGINES[name].title in origin.locator)


def test_a_plan_launches_what_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "llama-3.3-70b", "--on", "h100-sxm", "--tp", "8", "--weights", "fp8"]) == 0
    page = capsys.readouterr().out
    assert "nvidia/Llama-3.3-70B-Instruct-FP8" in page
    assert "Llama-3.1" not in page.partition("vllm serve")[2].partition("\n\n")[0]


def test_a_plan_of_a_config_launches_model_and_says_what_that_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.json").write_text(files.own_text("models/qwen3-8b.json"), encoding="utf-8")
    for more in ((), ("--detail",)):
        assert run(["plan", str(tmp_path), "--on", "h100-sxm", "--tp", "2", *more]) == 0
        page = capsys.readouterr().out
        assert "vllm serve MODEL --tensor-parallel-size 2" in page
        assert "MODEL the path of the checkpoint, or its repository" in page
