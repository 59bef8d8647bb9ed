"""Breakdowns: formulas are closed, folds keep their columns, and a number that was not computed is found out."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError, dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nhalf.breakdown import (
    Array,
    Input,
    Term,
    audit,
    chosen,
    columns,
    excess,
    largest,
    leaf,
    log2_ceil,
    log2_floor,
    maximum,
    minimum,
    portion,
    product,
    shares,
    smallest,
    total,
    walk,
)


def number(name: str, value: Input, column: str = "") -> Term:
    return leaf(name, "x", {"x": value}, column=column)


# --------------------------------------------------------------------------------------------------------- formulas


def test_the_string_that_is_shown_is_the_one_that_is_evaluated() -> None:
    term = leaf("steps", "2 * (k - 1) * alpha", {"k": 8, "alpha": 5e-6})
    assert term.formula == "2 * (k - 1) * alpha"
    assert term.value == pytest.approx(70e-6, rel=1e-15)
    assert isinstance(leaf("count", "2 * k", {"k": 8}).value, float)


def test_a_formula_reads_terms_and_calls_functions_among_its_inputs() -> None:
    inner = number("inner", 3.0)
    assert leaf("outer", "curve(inner) + 1", {"inner": inner, "curve": lambda size: 2 * size}).value == 7.0


def test_a_formula_is_element_wise() -> None:
    value = leaf("a", "maximum(x, 2) + minimum(x, 2) + log2_ceil(x) ** 2", {"x": np.array([1.0, 5.0])}).value
    assert np.asarray(value) == pytest.approx([2 + 1 + 0, 5 + 2 + 9])


@pytest.mark.parametrize(
    "formula",
    [
        "x.real",
        "x.__class__",
        "().__class__.__bases__",
        "x[0]",
        "[x]",
        "{x}",
        "(x, x)",
        "lambda: x",
        "[y for y in (x,)]",
        "x if x else x",
        "x < 1",
        "x and x",
        "not x",
        "(y := x)",
        "f'{x}'",
        "maximum(left=x, right=x)",
        "maximum(*x)",
        "x @ x",
        "x // 2",
        "x % 2",
        "x | x",
        "~x",
    ],
)
def test_a_formula_holds_arithmetic_and_plain_calls_only(formula: str) -> None:
    with pytest.raises(TypeError, match="formula"):
        leaf("bad", formula, {"x": 1.0})


@pytest.mark.parametrize(
    "formula", ["y", "x + alpha", "__import__(x)", "eval(x)", "print(x)", "np", "abs(x)", "max(x, 1)"]
)
def test_a_formula_knows_no_name_but_its_inputs_and_the_closed_list(formula: str) -> None:
    with pytest.raises(NameError):
        leaf("bad", formula, {"x": 1.0})


def test_a_formula_that_is_no_expression_is_refused() -> None:
    for formula in ("2 *", "x = 1", "import os", ""):
        with pytest.raises(SyntaxError):
            leaf("bad", formula, {"x": 1.0})


# -------------------------------------------------------------------------------------------------------- functions

POSITIVE = st.floats(1e-12, 1e12)


@given(POSITIVE, POSITIVE)
def test_maximum_and_minimum_are_the_same_for_scalars_and_arrays(left: float, right: float) -> None:
    assert maximum(left, right) == max(left, right) == float(maximum(np.array(left), right))
    assert minimum(left, right) == min(left, right) == float(minimum(left, np.array(right)))


@pytest.mark.parametrize(("value", "doublings"), [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (8, 3), (9, 4), (1024, 10)])
def test_log2_ceil_counts_the_doublings_that_reach_a_number(value: int, doublings: int) -> None:
    assert log2_ceil(float(value)) == doublings
    assert np.asarray(log2_ceil(np.array([float(value)]))) == [doublings]


@pytest.mark.parametrize(("value", "doublings"), [(1, 0), (2, 1), (3, 1), (4, 2), (7, 2), (8, 3), (9, 3), (1024, 10)])
def test_log2_floor_counts_the_doublings_that_a_number_holds(value: int, doublings: int) -> None:
    assert log2_floor(float(value)) == doublings
    assert np.asarray(log2_floor(np.array([float(value)]))) == [doublings]


# ------------------------------------------------------------------------------------------------------------ folds

TWO, THREE = number("two", 2.0, "a"), number("three", 3.0, "b")


@pytest.mark.parametrize(
    ("term", "value", "owed"),
    [
        (total("t", TWO, THREE), 5.0, {"a": 2.0, "b": 3.0}),
        (total("t"), 0.0, {}),
        (total("t", TWO, THREE, column="c"), 5.0, {"c": 5.0}),
        (product("t", number("count", 4.0), THREE), 12.0, {"b": 12.0}),
        (largest("t", TWO, THREE), 3.0, {"a": 0.0, "b": 3.0}),
        (smallest("t", TWO, THREE), 2.0, {"a": 2.0, "b": 0.0}),
        (excess("t", THREE, TWO, column="c"), 1.0, {"c": 1.0}),
        (excess("t", TWO, THREE, column="c"), 0.0, {"c": 0.0}),
        (portion("t", total("both", TWO, THREE), "b", column="c"), 3.0, {"c": 3.0}),
        (portion("t", TWO, "b", column="c"), 0.0, {"c": 0.0}),
    ],
    ids=lambda given: given.rule if isinstance(given, Term) else "",
)
def test_a_fold_has_its_value_and_owes_it_to_its_columns(term: Term, value: float, owed: dict[str, float]) -> None:
    assert term.value == value
    assert columns(term) == owed


def test_of_equal_parts_only_the_first_is_the_one_chosen() -> None:
    term = smallest("t", number("first", 2.0, "a"), number("second", 2.0, "b"))
    assert columns(term) == {"a": 2.0, "b": 0.0}


def test_each_element_of_an_array_chooses_for_itself() -> None:
    term = smallest("t", number("rising", np.array([1.0, 3.0]), "a"), number("flat", 2.0, "b"))
    owed = columns(term)
    assert np.asarray(owed["a"]) == pytest.approx([1.0, 0.0])
    assert np.asarray(owed["b"]) == pytest.approx([0.0, 2.0])


@pytest.mark.parametrize("term", [number("bare", 1.0), total("t", TWO, number("bare", 1.0)), portion("bare", TWO, "a")])
def test_a_term_without_a_column_is_named(term: Term) -> None:
    with pytest.raises(ValueError, match="'bare' belongs to no column"):
        columns(term)


def test_a_term_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        TWO.value = 4.0  # type: ignore[misc]


def test_the_walk_gives_a_parent_before_its_parts_and_the_terms_that_formulas_read() -> None:
    read = number("read", 1.0)
    tree = total("root", number("outer", read, "a"), product("many", number("count", 2.0), THREE))
    assert [path for path, _ in walk(tree)] == [
        "root", "root/outer", "root/outer/read", "root/many", "root/many/count", "root/many/three",
    ]  # fmt: skip


# ----------------------------------------------------------------------------------------------------- random trees


@dataclass(frozen=True)
class Leaf:
    """A leaf of a random tree: one value for each of three worlds."""

    values: tuple[float, float, float]
    column: str


@dataclass(frozen=True)
class Fold:
    """A fold of a random tree."""

    rule: str
    parts: tuple[Any, ...]
    column: str


Plan: TypeAlias = Leaf | Fold
VALUES = st.floats(0.0, 1e3).map(lambda value: round(value, 3))
COLUMNS = st.sampled_from(["a", "b", "c"])
LEAVES = st.builds(Leaf, st.tuples(VALUES, VALUES, VALUES), COLUMNS)
RULES = st.sampled_from(["total", "product", "largest", "smallest", "excess", "portion"])
PLANS = st.recursive(
    LEAVES, lambda inner: st.builds(Fold, RULES, st.tuples(inner, inner), COLUMNS), max_leaves=12
)  # fmt: skip


def build(plan: Plan, world: int | None, name: str = "t") -> Term:
    """Return the tree of a plan in one world, or in all three at once as arrays."""
    if isinstance(plan, Leaf):
        return number(name, np.array(plan.values) if world is None else plan.values[world], plan.column)
    left, right = (build(part, world, f"{name}{index}") for index, part in enumerate(plan.parts))
    if plan.rule == "excess":
        return excess(name, left, right, column=plan.column)
    if plan.rule == "portion":
        return portion(name, left, plan.column, column=plan.column)
    if plan.rule == "product":
        return product(name, left, right)
    return {"total": total, "largest": largest, "smallest": smallest}[plan.rule](name, left, right)


@given(PLANS)
def test_a_tree_of_arrays_is_the_trees_of_its_elements(plan: Plan) -> None:
    together = build(plan, None)
    for world in range(3):
        alone = build(plan, world)
        assert np.broadcast_to(together.value, 3)[world] == alone.value
        owed = {name: np.broadcast_to(value, 3)[world] for name, value in columns(together).items()}
        assert owed == pytest.approx(columns(alone))


@given(PLANS)
def test_the_columns_of_any_tree_add_up_to_its_value(plan: Plan) -> None:
    tree = build(plan, None)
    owed: Array = sum((np.broadcast_to(value, 3) for value in columns(tree).values()), np.zeros(3))
    np.testing.assert_allclose(owed, np.broadcast_to(tree.value, 3), rtol=1e-12, atol=1e-12)


@given(PLANS)
def test_the_shares_of_any_tree_lie_between_0_and_1(plan: Plan) -> None:
    for share in shares(build(plan, None)).values():
        assert np.all(np.asarray(share) >= 0)
        assert np.all(np.asarray(share) <= 1 + 1e-12)


@given(PLANS)
def test_any_tree_passes_its_audit(plan: Plan) -> None:
    assert audit(build(plan, None)) == audit(build(plan, 0)) == []


# ------------------------------------------------------------------------------------------------------------ audit


def tampered(term: Term, target: Term) -> Term:
    """Return the tree with 1 added to the value of one of its terms, and nothing else computed again."""
    if term is target:
        return replace(term, value=term.value + 1.0)
    parts = tuple(tampered(part, target) for part in term.parts)
    inputs = {
        name: tampered(given, target) if isinstance(given, Term) else given for name, given in term.inputs.items()
    }
    return replace(term, parts=parts, inputs=inputs)


def sample() -> Term:
    read = leaf("bytes", "p * w", {"p": 70e9, "w": 2.0}, unit="bytes")
    weights = leaf("weights", "bytes / B", {"bytes": read, "B": 3e12}, column="weights")
    law = smallest("law", number("ring", 3.0, "fixed"), number("tree", 2.0, "transfer"))
    many = product(
        "many", leaf("count", "2 * L", {"L": 80.0}, unit="1"), portion("fixed", law, "fixed", column="fixed")
    )
    return total("step", weights, many, largest("top", TWO, THREE), excess("host", THREE, TWO, column="launch"))


def test_the_sample_passes() -> None:
    assert audit(sample()) == []


@pytest.mark.parametrize("path", [path for path, _ in walk(sample())])
def test_a_value_that_was_not_computed_is_found(path: str) -> None:
    tree = sample()
    target = dict(walk(tree))[path]
    # A part that is handed on without being computed on (not chosen) may be wrong without its parent being wrong.
    assert path in audit(tampered(tree, target))


def test_a_formula_that_is_not_the_one_evaluated_is_found() -> None:
    good = leaf("steps", "a + b", {"a": 1.0, "b": 2.0}, column="fixed")
    assert audit(total("t", replace(good, formula="a - b"))) == ["t/steps"]
    assert audit(total("t", replace(good, inputs={"a": 1.0, "b": 3.0}))) == ["t/steps"]


def test_one_wrong_element_of_an_array_is_found() -> None:
    good = number("n", np.array([1.0, 2.0, 3.0]), "a")
    assert audit(replace(good, value=np.array([1.0, 2.0, math.nextafter(3.0, 4.0)]))) == ["n"]


def test_a_term_prints_as_one_line() -> None:
    parts = [leaf(name, "a", {"a": 2.0}) for name in ("first", "second")]
    assert repr(total("both", *parts)) == "<Term both = 4 s: total of first, second>"
    assert repr(leaf("many", "a", {"a": np.ones(3)}, unit="bytes")) == "<Term many = array of (3,) bytes>"


def test_a_choice_takes_the_part_whose_plan_is_the_smallest_and_its_columns() -> None:
    plans = (
        leaf("plan a", "p", {"p": np.array([1.0, 3.0, 2.0])}),
        leaf("plan b", "p", {"p": np.array([2.0, 1.0, 2.0])}),
    )
    parts = (number("a", np.array([10.0, 10.0, 10.0]), "fixed"), number("b", np.array([5.0, 5.0, 5.0]), "transfer"))
    term = chosen("either", plans, parts)
    assert np.asarray(term.value).tolist() == [10.0, 5.0, 10.0], "of two plans that are alike the first is taken"
    assert {name: np.asarray(each).tolist() for name, each in columns(term).items()} == {
        "fixed": [10.0, 0.0, 10.0],
        "transfer": [0.0, 5.0, 0.0],
    }
    assert audit(term) == []
    assert audit(replace(term, value=np.array([5.0, 5.0, 5.0]))) == ["either"]
