"""Experiments: records are what the specification says, come out the same, and survive being killed."""

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from torch import Tensor

from shearshap import InputError, explain
from shearshap.interactions.cross import cross_contribution
from shearshap.methods.exact import shapley_transform
from shearshap_lab import theory
from shearshap_lab.experiments.runner import run
from shearshap_lab.experiments.spec import ABLATIONS, Spec, read, specifications
from shearshap_lab.experiments.studies import cooperators, timings
from shearshap_lab.experiments.studies import estimates as estimating
from shearshap_lab.experiments.studies.estimates import Subject, draws, prepare
from shearshap_lab.networks import RECIPES
from shearshap_lab.runner import column, where

SPEC = Spec(
    "census",
    model_seeds=(0,),
    recipes=("authors", "ours"),
    evaluations=(8, 16),
    rounds=2,
    rows=6,
    timings=1,
    timed_rows=4,
    rows_one_by_one=1,
    bounded_rows=1,
)

# one worker for all of them: the run that they look at takes longer than any of them
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("experiments")]


@pytest.fixture(scope="session")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of briefly trained networks."""
    folder = tmp_path_factory.mktemp("run") / "out"
    with pytest.MonkeyPatch.context() as patch:
        for name, recipe in RECIPES.items():
            patch.setitem(RECIPES, name, replace(recipe, epochs=1))
        run([SPEC], folder, command=["shear", "paper", "reproduce", "census"])
    return folder


@pytest.fixture(scope="session")
def subject(out: Path) -> Subject:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(RECIPES, "ours", replace(RECIPES["ours"], epochs=1))
        return prepare(SPEC, "ours", 0, out)


def surface_of(subject: Subject, row: int) -> theory.Surface:
    def surface(z: Tensor) -> Tensor:
        with subject.game([row]) as game:
            return game.surface(z.float()[None])[0, :, 0]

    return surface


def subgame(subject: Subject, row: int, members: list[int]) -> dict[int, float]:
    """The Shapley values of the game among members only, from all their coalitions."""
    count = len(members)
    points = torch.zeros(1 << count, subject.players, dtype=torch.float64)
    bits = torch.arange(1 << count)[:, None] >> torch.arange(count) & 1
    points[:, members] = bits.double()
    values = surface_of(subject, row)(points).double().detach()
    phi = shapley_transform(values[None, :, None])[0, :, 0]
    return dict(zip(members, phi.tolist(), strict=True))


# What is measured


@pytest.mark.parametrize("recipe", SPEC.recipes)
def test_every_estimate_is_there_once(out: Path, recipe: str) -> None:
    records = read(out / "records")
    rows = RECIPES[recipe].load("census").test[:6].tolist()
    cells = {(method, n) for method in SPEC.methods for n in (8, 16)}
    cells |= {(name, 16) for name in ABLATIONS}
    for study, name, items in (
        ("estimates", "row", lambda _: rows),
        ("rounds", "round", lambda method: range(SPEC.rounds_of(method))),
    ):
        own = where(records[study], recipe=recipe)
        columns = (column(own, each).tolist() for each in ("method", "n", name))
        found = Counter(zip(*columns, strict=True))
        wanted = {(method, n, item) for method, n in cells for item in items(method)}
        wanted |= {("truth", 0, row) for row in rows} if name == "row" else {("truth", 0, 0)}
        assert set(found) == wanted
        assert set(found.values()) == {1}


def test_records_are_means_over_rounds_and_over_rows(out: Path) -> None:
    (path,) = (out / "parts").glob("census-ours-seed0-estimates-*")
    every = where(pq.read_table(path), method="shear", n=16)
    kept = {
        name: where(table, recipe="ours", method="shear", n=16)
        for name, table in read(out / "records").items()
        if name in ("estimates", "rounds")
    }
    cube = column(every, "absolute_error").reshape(2, 6)
    by_row = column(kept["estimates"], "absolute_error")
    np.testing.assert_allclose(by_row, cube.mean(axis=0), rtol=5.1e-4)
    by_round = column(kept["rounds"], "absolute_error")
    np.testing.assert_allclose(by_round, cube.mean(axis=1), rtol=5.1e-4)


@pytest.mark.parametrize("method", ["leverage", "shear", "kernel-welford"])
def test_an_estimate_by_hand(out: Path, subject: Subject, method: str) -> None:
    """One cell again, with the metrics written out."""
    (path,) = (out / "parts").glob("census-ours-seed0-estimates-*")
    estimates = where(pq.read_table(path), method=method, n=16, round=1)
    dataset = subject.dataset
    answer = explain(
        subject.trained.network,
        dataset.inputs[dataset.test[:6]],
        reference=dataset.background,
        groups=dataset.groups,
        output=1,
        budget=16 * 13 + 2,
        method=method,
        seed=draws(0, 1),
    )
    truth = subject.truth.values
    for row in range(6):
        error = sum(abs(answer.values[row, i] - truth[row, i]) for i in range(13))
        assert column(estimates, "absolute_error")[row] == pytest.approx(error)
        drops = [answer.predictions[row] - _without(subject, row, i) for i in range(13)]
        assert column(estimates, "faithfulness")[row] == pytest.approx(
            np.corrcoef(drops, answer.values[row])[0, 1]
        )
    assert set(column(estimates, "evaluations")) == {answer.evaluations}
    assert set(column(estimates, "derivative_passes")) == {answer.derivative_passes}


def _without(subject: Subject, row: int, player: int) -> float:
    inputs = subject.inputs[row].copy()
    columns = list(subject.dataset.groups.values())[player]
    inputs[columns] = subject.dataset.background[columns]
    with torch.no_grad():
        return float(subject.trained.network(torch.from_numpy(inputs)[None])[0, 1])


def test_a_value_among_cooperators_is_the_subgames(subject: Subject) -> None:
    target, chosen = torch.tensor([2, 5]), torch.tensor([[0, 4, 12], [1, 2, 3]])
    with subject.game(slice(0, 2)) as game:
        found = cooperators.among(game, target, chosen)
    for row in range(2):
        player = int(target[row])
        slow = subgame(subject, row, [player, *chosen[row].tolist()])
        assert float(found[row]) == pytest.approx(slow[player], abs=1e-5)


def test_cooperators_of_all_sizes_lose_nothing_in_the_end(out: Path, subject: Subject) -> None:
    found = where(read(out / "records")["cooperators"], recipe="ours")
    assert set(column(where(found, selection="shear"), "n")) == {1 << size for size in range(2, 14)}
    assert column(where(found, n=1 << 13), "error").max() < 1e-5
    random, chosen = (where(found, selection=name, n=16, draw=0) for name in ("random", "shear"))
    more = column(chosen, "cross_contribution") >= column(random, "cross_contribution") - 1e-12
    assert more.all()
    players = column(random, "player")
    assert (np.abs(subject.truth.values[np.arange(6), players]) > 0).all()
    later = where(found, selection="random", n=16)
    assert set(column(later, "draw")) == set(range(1 + cooperators.DRAWS))


def test_pairs_are_what_one_feature_loses_without_another(out: Path, subject: Subject) -> None:
    pairs = where(read(out / "records")["pairs"], recipe="ours")
    assert len(pairs) == 13 * 12 / 2
    whole = subgame(subject, 0, list(range(13)))
    rest = subgame(subject, 0, [player for player in range(13) if player != 7])
    one = where(pairs, player=3, other=7)
    assert column(one, "loss")[0] == pytest.approx(whole[3] - rest[3], rel=1e-3, abs=1e-6)
    with subject.game([0]) as game:
        derivatives = theory.cross_derivatives(lambda z: game.surface(z.float()[None])[0, :, 0], 13)
    slow = theory.chain_rule_errors(derivatives)
    assert column(one, "chain")[0] == pytest.approx(float(slow[3, 7]), rel=1e-3)
    assert (1.001 * column(pairs, "sure") >= np.abs(column(pairs, "loss")) - 1e-6).all()


def test_remark_2_adds_the_bounds_of_those_left_out(out: Path, subject: Subject) -> None:
    records = read(out / "records")
    found = where(records["selection_bound"], recipe="ours")
    # the best bound leaves out the smallest of Theorem 2's
    pairs = where(records["pairs"], recipe="ours").to_pylist()
    printed = [row["printed"] for row in pairs if 3 in (row["player"], row["other"])]
    best = where(found, selection="bound", n=16, player=3)
    assert column(best, "bound")[0] == pytest.approx(sum(sorted(printed)[:-3]), rel=1e-3)
    assert (column(found, "error") <= 1.001 * column(found, "sure") + 1e-6).all()
    with subject.game([0]) as game:
        eta = cross_contribution(game)[0, 5].clone()
    eta[5] = -1
    slow = subgame(subject, 0, [5, *eta.argsort(descending=True)[:3].tolist()])
    error = abs(slow[5] - subject.truth.values[0, 5])
    own = where(found, selection="shear", n=16, player=5)
    assert column(own, "error")[0] == pytest.approx(error, rel=6e-3, abs=1e-6)


def test_the_illustrated_row_explains_the_margin(out: Path, subject: Subject) -> None:
    rows = where(read(out / "records")["illustration"], recipe="ours")
    first = rows.to_pylist()[0]
    total = first["prediction"] - first["base_value"]
    assert column(rows, "exact").sum() == pytest.approx(total, abs=1e-5)
    with torch.no_grad():
        logits = subject.trained.network(torch.from_numpy(subject.inputs))
    margins = (logits[:, 1] - logits[:, 0]).numpy()
    assert first["prediction"] == pytest.approx(margins[np.abs(margins - 1.73).argmin()], abs=1e-5)
    assert rows["feature"].to_pylist() == subject.dataset.feature_names


def test_timings_are_of_every_method_and_of_the_cost_models_parts(
    out: Path, subject: Subject
) -> None:
    found = read(out / "records")["timings"]
    parts = {"forward", "derivatives"}
    batch, one_by_one = (where(found, way=way) for way in timings.WAYS)
    assert set(batch["method"].to_pylist()) == {*SPEC.timed_methods, *parts}
    assert set(one_by_one["method"].to_pylist()) == {*SPEC.timed_methods, *parts} - {"kriging"}
    assert (column(found, "seconds") > 0).all()
    assert (set(column(batch, "rows")), set(column(one_by_one, "rows"))) == ({4}, {1})
    seen: list[int] = []
    with subject.trained.network.register_forward_hook(
        lambda _module, inputs, _output: seen.append(len(inputs[0]))
    ):
        timings._work(subject, "one by one", "permutation-authors", 8)(slice(0, 2))
    # a row has its N for each of 13 features, N at a time
    assert max(seen) <= 8
    assert len(seen) > 2 * 13


# Running


def test_a_run_goes_on_where_it_was(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All studies but one are read from disk, and the records are the same again."""
    folder = tmp_path / "again"
    shutil.copytree(out, folder)
    before = read(folder / "records")
    (spoiled,) = (folder / "parts").glob("census-ours-seed0-pairs-*")
    spoiled.write_bytes(b"no Parquet")
    shutil.rmtree(folder / "records")
    called = []
    for name in ("describe", "estimates", "illustration"):
        monkeypatch.setattr(estimating, name, lambda *_, **__: called.append(1))
    for name, recipe in RECIPES.items():
        monkeypatch.setitem(RECIPES, name, replace(recipe, epochs=1))
    run([SPEC], folder)
    for study, records in read(folder / "records").items():
        assert records.equals(before[study]), study
    assert not called


# Specifications


def test_specifications_of_the_command_line(tmp_path: Path) -> None:
    census, bank = specifications("all")
    assert (census.dataset, census.rows, bank.dataset, bank.rows) == ("census", 100, "bank", 40)
    (quick,) = specifications("census", quick=True, rows=7, rounds=3)
    assert (quick.model_seeds, quick.rows, quick.rounds) == ((0,), 7, 3)
    file = tmp_path / "train.txt"
    file.write_text("")
    (criteo,) = specifications("criteo", path=file)
    assert (criteo.path, criteo.recipes) == (str(file), ("ours",))
    assert "shear-authors" not in criteo.methods
    assert [spec.dataset for spec in specifications("all", path=file)][-1] == "criteo"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"what": "german"}, "there are no experiments on 'german'"),
        ({"what": "census", "rows": -1}, "rows: expected 1 to 6513"),
        ({"what": "census", "rows": 10_000}, "the test rows of census, got 10000"),
        ({"what": "census", "path": "x"}, "path: only criteo reads your own file"),
        ({"what": "criteo"}, "criteo: no file was given"),
    ],
)
def test_specifications_that_mean_nothing_are_refused(options: dict[str, str], text: str) -> None:
    with pytest.raises(InputError, match=text):
        specifications(**options)  # type: ignore[arg-type]
