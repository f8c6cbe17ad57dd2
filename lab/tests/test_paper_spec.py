"""What is measured: specifications, protocols and ablations."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from shearshap.errors import InputError
from shearshap.methods import METHODS, Shear
from shearshap_lab.baselines import BASELINES
from shearshap_lab.experiments.spec import (
    ABLATIONS,
    CANDIDATES,
    NEWER,
    PROTOCOLS,
    Choice,
    Protocol,
    Spec,
    baselines,
    specifications,
    variants,
)
from shearshap_lab.experiments.style import label_of
from shearshap_lab.networks import RECIPES

PAPER = PROTOCOLS["paper"]
COIN = PROTOCOLS["paper-coin"]
AUTHORS = PROTOCOLS["authors"]
FAIR = PROTOCOLS["fair"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"rounds": 0}, "rounds: wanted a positive number, got 0"),
        ({"rows": -1}, "rows: wanted a positive number, got -1"),
        ({"timings": 0}, "timings: wanted a positive number, got 0"),
        ({"bounded_rows": 0}, "bounded_rows: wanted a positive number, got 0"),
        (
            {"model_seeds": ()},
            "a specification needs at least one model seed and one number of evaluations a feature",
        ),
        (
            {"evaluations": ()},
            "a specification needs at least one model seed and one number of evaluations a feature",
        ),
        ({"evaluations": (16, 2)}, "evaluations: SHEAR needs at least 4 for each feature, got 2"),
        (
            {"evaluations": (8, 32)},
            "evaluations: ablations are compared with SHEAR at 16, got (8, 32)",
        ),
        ({"variant_rows": 0}, "variant_rows: wanted a positive number, got 0"),
        (
            {"recipes": ("ours", "mine")},
            "recipe: wanted one of ours, authors, authors-mean, got 'mine'",
        ),
        ({"protocol": "mine"}, "protocol: wanted paper, fair or both, got 'mine'"),
        ({"rows": 7000}, "rows: census has 6513 test rows, got 7000"),
        ({"rows": 201, "dataset": "german"}, "rows: german has 200 test rows, got 201"),
        (
            {"rows": 10001, "dataset": "criteo-synthetic"},
            "rows: criteo-synthetic has 10000 test rows, got 10001",
        ),
    ],
)
def test_a_specification_checks_its_numbers(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        Spec(**{"dataset": "census", **wrong})
    assert Spec("census", rows=6513).rows == 6513


@pytest.mark.parametrize(
    ("choice", "protocols"),
    [
        ("paper", ("paper", "paper-coin", "authors")),
        ("fair", ("fair",)),
        ("both", ("paper", "paper-coin", "authors", "fair")),
    ],
)
def test_a_choice_of_protocol_is_its_methods_each_once(
    choice: Choice, protocols: tuple[Protocol, ...]
) -> None:
    spec = Spec("census", protocol=choice)
    assert spec.protocols == protocols
    assert set(spec.methods) == {method for protocol in protocols for method in PROTOCOLS[protocol]}
    assert len(spec.methods) == len(set(spec.methods))


@pytest.mark.parametrize("dataset", ["criteo", "criteo-synthetic"])
def test_derivatives_by_columns_are_not_asked_of_embeddings(dataset: str) -> None:
    assert set(Spec("census").methods) - set(Spec(dataset).methods) == {"shear-authors"}


def test_protocols_cover_every_method() -> None:
    assert {method for names in PROTOCOLS.values() for method in names} <= set(CANDIDATES)
    assert {*FAIR, "exact"} == set(METHODS) - {"auto"}
    assert ({*PAPER, *COIN, *AUTHORS} - set(FAIR)) == {*BASELINES, "shear-authors"}
    assert [name.replace("-coin", "") for name in COIN] == list(PAPER)
    assert [name for name in COIN if name not in PAPER] == [
        "permutation-coin-paper",
        "permutation-antithetic-coin-paper",
    ]
    assert {name for name in PAPER if name.endswith("-authors")} == set()
    assert {name for name in AUTHORS if name.endswith("-paper")} == set()
    assert all("shear" in names and len(set(names)) == len(names) for names in PROTOCOLS.values())


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_papers_baselines_are_five(protocol: Protocol) -> None:
    ours = {"shear", "shear-authors", *NEWER}
    assert baselines(protocol) == tuple(name for name in PROTOCOLS[protocol] if name not in ours)
    assert [label_of(name) for name in baselines(protocol)] == [
        "KS",
        "KS-WF",
        "KS-Pair",
        "PS",
        "APS",
    ]


def test_ablations_switch_off_what_they_say() -> None:
    shear = Shear()
    assert {
        "shear-without-ccs": dataclasses.replace(shear, selection="random"),
        "shear-unpaired": dataclasses.replace(shear, outsiders="independent"),
        "shear-unpaired-without-ccs": dataclasses.replace(
            shear, outsiders="independent", selection="random"
        ),
        "shear-empty": dataclasses.replace(shear, outsiders="empty"),
        "shear-empty-without-ccs": dataclasses.replace(
            shear, outsiders="empty", selection="random"
        ),
    } == ABLATIONS
    assert len({*ABLATIONS.values(), shear}) == 6
    assert CANDIDATES["shear-authors"] == dataclasses.replace(shear, interaction="block-maximum")


def test_specifications_of_what_is_reproduced(tmp_path: Path) -> None:
    every = specifications("all")
    assert [spec.dataset for spec in every] == ["census", "bank", "german", "criteo-synthetic"]
    assert specifications("bank") == [every[1]]
    assert all(len(spec.model_seeds) >= 3 for spec in every)
    assert [len(spec.model_seeds) for spec in every[:2]] == [5, 5]
    assert [spec.recipes for spec in every] == [
        ("ours", "authors", "authors-mean"),
        ("ours", "authors", "authors-mean"),
        ("ours",),
        ("ours",),
    ]
    assert {spec.timings for spec in every} == {10}
    assert {spec.rounds for spec in every} == {5}
    assert {spec.protocol for spec in every} == {"both"}
    quick = specifications("all", quick=True)
    assert {spec.model_seeds for spec in quick} == {(0,)}
    assert all(
        fewer.rows < spec.rows and fewer.rounds < spec.rounds
        for fewer, spec in zip(quick, every, strict=True)
    )
    assert all(
        bool(fewer.variants) == bool(spec.variants)
        for fewer, spec in zip(quick, every, strict=True)
    )
    (own,) = specifications("census", protocol="fair", rows=7, rounds=1, quick=True)
    assert (own.protocol, own.rows, own.rounds, own.variant_rows) == ("fair", 7, 1, 7)
    file = tmp_path / "day.gz"
    file.touch()
    assert [(spec.dataset, spec.path) for spec in specifications("all", path=file)] == [
        ("census", None), ("bank", None), ("german", None), ("criteo", str(file)),
    ]  # fmt: skip


# Networks


def test_variants_differ_from_the_authors_recipe_in_what_is_compared() -> None:
    authors = RECIPES["authors"]
    cells = [
        (
            recipe.preparation.encoding,
            recipe.stopping,
            recipe.preparation.background,
            recipe.activation,
        )
        for recipe in variants()
    ]
    assert len(set(cells)) == len(cells)
    assert variants()[:2] == (authors, RECIPES["authors-mean"])
    assert {recipe.preparation.split for recipe in variants()} == {"scikit-learn"}
    assert {recipe.drop_last for recipe in variants()} == {True}
    both = {
        (encoding, stopping) for encoding, stopping, background, _ in cells if background == "mean"
    }
    assert both == {
        ("standardised", "20 epochs"),
        ("standardised", "80 epochs"),
        ("0/1", "20 epochs"),
        ("0/1", "80 epochs"),
        ("0/1", "patience"),
    }
    assert {cell for cell in cells if cell[0] == "standardised" and cell[2] == "quirk"} == {
        ("standardised", "20 epochs", "quirk", "softplus"),
        ("standardised", "80 epochs", "quirk", "softplus"),
        ("standardised", "patience", "quirk", "softplus"),
        ("standardised", "20 epochs", "quirk", "relu"),
        ("standardised", "20 epochs", "quirk", "tanh"),
    }
    assert set(variants(quick=True)) < set(variants())


def test_networks_that_are_a_part_of_one_training_are_trained_at_once() -> None:
    (spec,) = specifications("census")
    settings = list(spec.settings())
    assert len(settings) == 3 * 5 + 3 * len(variants())
    authors = next(setting for setting in settings if setting.name == "authors")
    assert [recipe.epochs for recipe in spec.trained_with(authors)] == [20, 80, None]
    late = [setting for setting in settings if setting.name == "authors" and setting.seed == 4]
    assert [recipe.epochs for recipe in spec.trained_with(late[0])] == [20]
    ours = settings[0]
    assert spec.trained_with(ours) == [RECIPES["ours"]]
    mean = next(setting for setting in settings if setting.name == "authors-mean")
    assert spec.trained_with(mean) == spec.trained_with(authors)


def test_slow_methods_have_fewer_rounds() -> None:
    spec = Spec("census", rounds=5, timings=10)
    assert (spec.rounds_of("kriging"), spec.rounds_of("shear")) == (2, 5)
    assert (spec.timings_of("kriging"), spec.timings_of("shear")) == (3, 10)
    assert Spec("census", rounds=1, timings=1).rounds_of("kriging") == 1
    assert spec.methods_on("authors-mean") == ("shear", "shear-authors")
    assert spec.methods_on("authors") == spec.methods
