"""Experiments: records are what the specification says, come out the same, and survive being killed."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
import torch
from typer.testing import CliRunner

import browser
from shearshap import METHODS, explain
from shearshap.cli import app
from shearshap.interactions.cross import cross_contribution
from shearshap.store import Store
from shearshap_lab import code_state, theory
from shearshap_lab.baselines import BASELINES
from shearshap_lab.experiments import (
    ABLATIONS,
    STUDIES,
    Spec,
    printed,
    read,
    report,
    run,
    studies,
)
from shearshap_lab.experiments import provenance as origin
from shearshap_lab.experiments.records import column, part, provenance, where
from shearshap_lab.experiments.runner import Task, tasks
from shearshap_lab.experiments.spec import REBASED, SLOW, variants
from shearshap_lab.experiments.studies import cooperator_sets
from shearshap_lab.experiments.studies.cooperator_sets import among
from shearshap_lab.experiments.studies.setting_facts import draws
from shearshap_lab.experiments.subject import Subject, network_folder, prepare
from shearshap_lab.networks import RECIPES, Recipe, save, train

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

SPEC = Spec(
    "census",
    model_seeds=(0,),
    recipes=("ours", "authors", "authors-mean"),
    evaluations=(8, 16),
    rounds=2,
    rows=6,
    timings=1,
    timed_rows=4,
    rows_one_by_one=1,
    bounded_rows=1,
    variants=variants(quick=True)[:3],
    variant_seeds=(0,),
    variant_rows=4,
)
COMMAND = ["shear", "reproduce", "census"]
OURS, AUTHORS, AUTHORS_MEAN, *OTHERS = SPEC.settings()
SMALL = replace(SPEC, recipes=("ours",), variants=(), rounds=1, evaluations=(16,), protocol="fair")


# one worker for all of them: the run that they look at takes longer than any of them
pytestmark = pytest.mark.xdist_group("experiments")


@pytest.fixture(scope="session")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with briefly trained networks, where a run looks for them."""
    folder = tmp_path_factory.mktemp("network")
    for recipe in (RECIPES["ours"], RECIPES["authors"], OTHERS[2].recipe):
        put(folder, recipe)
    return folder


def put(folder: Path, recipe: Recipe, epochs: int = 3) -> None:
    """Put a briefly trained network where a run looks for that of a recipe."""
    trained = train(recipe.load("census"), epochs=epochs, progress=False)
    save(trained, network_folder(SPEC, recipe, 0, folder))


@pytest.fixture(scope="session")
def out(network: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run."""
    folder = tmp_path_factory.mktemp("run") / "out"
    shutil.copytree(network, folder)
    run([SPEC], folder, command=COMMAND)
    return folder


@pytest.fixture(scope="session")
def subject(out: Path) -> Subject:
    return prepare(SPEC, OURS, out)


# What is measured


@pytest.mark.parametrize("recipe", SPEC.recipes)
def test_every_estimate_is_there_once(out: Path, recipe: str) -> None:
    estimates = where(read(out / "records")["estimates"], recipe=recipe)
    names = ("method", "n", "round", "row")
    found = Counter(zip(*(column(estimates, name).tolist() for name in names), strict=True))
    rows = RECIPES[recipe].load("census").test[:6].tolist()
    methods = REBASED if recipe == "authors-mean" else SPEC.methods
    ablations = () if recipe == "authors-mean" else ABLATIONS
    wanted = {
        (method, n, number, row)
        for method in methods
        for n in (8, 16)
        for number in ((0,) if method in SLOW else (0, 1))
        for row in rows
    }
    wanted |= {
        (method, 16, number, row) for method in ablations for number in (0, 1) for row in rows
    }
    wanted |= {("truth", 0, 0, row) for row in rows}
    assert set(found) == wanted
    assert set(found.values()) == {1}


def test_every_study_has_its_columns(out: Path) -> None:
    for study, records in read(out / "records").items():
        assert records.schema == STUDIES[study]
        assert len(records) > 0
        assert all(records[name].null_count == 0 for name in records.column_names)


@pytest.mark.parametrize("method", ["leverage", "shear", "kernel-welford"])
def test_an_estimate_by_hand(out: Path, subject: Subject, method: str) -> None:
    """One cell again, with the metrics written out."""
    estimates = where(
        read(out / "records")["estimates"], recipe="ours", method=method, n=16, round=1
    )
    dataset = subject.dataset
    answer = explain(
        subject.trained.network, dataset.inputs[dataset.test[:6]], reference=dataset.background, groups=dataset.groups,
        output=1, budget=16 * 13 + 2, method=method, seed=draws(0, 1),
    )  # fmt: skip
    truth = subject.truth.values
    for row in range(6):
        error = sum(abs(answer.values[row, i] - truth[row, i]) for i in range(13))
        assert column(estimates, "absolute_error")[row] == pytest.approx(error)
        ours, theirs = (
            sorted(range(13), key=lambda i: -one[row, i]) for one in (answer.values, truth)
        )
        hits = sum((ours[m] == theirs[m]) / (m + 1) for m in range(13)) / sum(
            1 / (m + 1) for m in range(13)
        )
        assert column(estimates, "ranking_accuracy")[row] == pytest.approx(hits)
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


def test_rounds_differ_and_n_is_what_is_spent(out: Path) -> None:
    estimates = read(out / "records")["estimates"]
    first, second = (
        column(
            where(estimates, recipe="ours", method="leverage", n=8, round=number), "absolute_error"
        )
        for number in (0, 1)
    )
    assert (first != second).all()
    for n in (8, 16):
        assert column(where(estimates, n=n), "evaluations").max() == n * 13 + 2


def test_a_value_among_cooperators_is_the_subgames(subject: Subject) -> None:
    """A row's target among its cooperators, against the slow theory of subgames."""
    target, cooperators = torch.tensor([2, 5]), torch.tensor([[0, 4, 12], [1, 2, 3]])
    with subject.game(slice(0, 2)) as game:
        found = among(game, target, cooperators)
    for row in range(2):
        members = torch.zeros(13, dtype=torch.bool)
        members[[int(target[row]), *cooperators[row].tolist()]] = True
        with subject.game([row]) as game:
            slow = theory.subgame_shapley(
                lambda z, game=game: game.surface(z.float()[None])[0, :, 0],  # type: ignore[misc]
                members,
            )
        assert float(found[row]) == pytest.approx(float(slow[target[row]]), abs=1e-5)


def test_cooperators_of_all_sizes_lose_nothing_in_the_end(out: Path, subject: Subject) -> None:
    found = where(read(out / "records")["cooperators"], recipe="ours")
    assert set(column(where(found, selection="shear"), "n")) == {1 << size for size in range(2, 14)}
    assert column(where(found, n=1 << 13), "error").max() < 1e-5
    random, chosen = (where(found, selection=name, n=16, draw=0) for name in ("random", "shear"))
    assert (
        column(chosen, "cross_contribution") >= column(random, "cross_contribution") - 1e-12
    ).all()
    assert set(column(where(found, selection="random", n=8), "draw")) == {0}
    players = column(random, "player")
    np.testing.assert_allclose(column(random, "value"), subject.truth.values[np.arange(6), players])


def test_later_draws_are_of_every_feature_of_some_value(out: Path, subject: Subject) -> None:
    found = where(read(out / "records")["cooperators"], recipe="ours", selection="random", n=16)
    assert set(column(found, "draw")) == set(range(1 + studies.DRAWS))
    values = subject.truth.values
    size = np.abs(values)
    wanted = {
        (row, player)
        for place, row in enumerate(subject.truth.rows.tolist())
        for player in range(13)
        if size[place, player] > 1e-7 * size[place].max()
    }
    assert len(wanted) > 6 * 10
    for draw in range(1, 1 + studies.DRAWS):
        here = where(found, draw=draw)
        pairs = zip(column(here, "row").tolist(), column(here, "player").tolist(), strict=True)
        assert Counter(pairs) == Counter(wanted)
    first, second = (where(found, draw=draw, player=0) for draw in (1, 2))
    assert column(first, "value").tolist() == column(second, "value").tolist()
    assert column(first, "error").tolist() != column(second, "error").tolist()


def test_a_feature_of_no_value_is_no_target() -> None:
    phi = np.zeros((200, 4))
    phi[:100, 1] = -2.0
    phi[100:] = 1.0
    targets = cooperator_sets._targets(phi, np.random.default_rng(0))
    assert set(targets[:100]) == {1}
    assert set(targets[100:]) == {0, 1, 2, 3}
    np.testing.assert_array_equal(
        targets[100:], np.random.default_rng(0).integers(4, size=200)[100:]
    )


def losses(subject: Subject, other: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The Shapley values of a subject's first row, and those without a player."""
    members = torch.ones(13, dtype=torch.bool)
    with subject.game([0]) as game:
        surface = lambda z: game.surface(z.float()[None])[0, :, 0]  # noqa: E731
        whole = theory.subgame_shapley(surface, members)
        members[other] = False
        return whole, theory.subgame_shapley(surface, members)


def test_bounds_are_of_losses(out: Path, subject: Subject) -> None:
    bounds = where(read(out / "records")["bounds"], recipe="ours")
    whole, rest = losses(subject, other=7)
    loss = abs(float(whole[3] - rest[3]))
    assert column(where(bounds, player=3, other=7), "loss")[0] == pytest.approx(loss, abs=1e-6)
    assert (column(bounds, "sure") >= column(bounds, "loss") - 1e-6).all()
    assert len(bounds) == 13 * 12 / 2


def test_the_chain_rule_is_of_losses_with_their_sign(out: Path, subject: Subject) -> None:
    records = read(out / "records")
    chain = where(records["chain"], recipe="ours")
    whole, rest = losses(subject, other=7)
    signed = where(chain, player=3, other=7)
    assert column(signed, "loss")[0] == pytest.approx(float(whole[3] - rest[3]), abs=1e-6)
    np.testing.assert_allclose(
        column(chain, "remainder"), column(chain, "loss") - column(chain, "chain")
    )
    with subject.game([0]) as game:
        slow = theory.chain_rule_errors(
            theory.cross_derivatives(lambda z: game.surface(z.float()[None])[0, :, 0], 13)
        )
    assert column(signed, "chain")[0] == pytest.approx(float(slow[3, 7]), rel=1e-6)
    np.testing.assert_allclose(
        np.abs(column(chain, "loss")), column(where(records["bounds"], recipe="ours"), "loss")
    )


def test_remark_2_adds_the_bounds_of_those_left_out(out: Path) -> None:
    records = read(out / "records")
    found = where(records["selection_bound"], recipe="ours")
    assert set(
        zip(found["selection"].to_pylist(), column(found, "draw").tolist(), strict=True)
    ) == {
        ("shear", 0),
        ("bound", 0),
        *(("random", draw) for draw in range(5)),
    }
    # the best bound leaves out the smallest of Theorem 2's
    pairs = where(records["bounds"], recipe="ours").to_pylist()
    printed = [row["printed"] for row in pairs if 3 in (row["player"], row["other"])]
    best = where(found, selection="bound", n=16, player=3)
    assert column(best, "bound")[0] == pytest.approx(sum(sorted(printed)[:-3]))
    for selection in ("shear", "random"):
        for row in where(found, selection=selection, n=16).to_pylist():
            least = where(found, selection="bound", n=16, player=row["player"])
            assert row["bound"] >= column(least, "bound")[0] - 1e-12
    assert (column(found, "error") <= column(found, "sure") + 1e-6).all()


def test_the_error_of_remark_2_is_that_of_the_subgame(out: Path, subject: Subject) -> None:
    found = where(read(out / "records")["selection_bound"], recipe="ours", selection="shear")
    with subject.game([0]) as game:
        eta = cross_contribution(game)[0, 5].clone()
        eta[5] = -1
        members = torch.zeros(13, dtype=torch.bool)
        members[[5, *eta.argsort(descending=True)[:3].tolist()]] = True
        slow = theory.subgame_shapley(lambda z: game.surface(z.float()[None])[0, :, 0], members)
    error = abs(float(slow[5]) - subject.truth.values[0, 5])
    assert column(where(found, n=16, player=5), "error")[0] == pytest.approx(error, abs=1e-6)


def test_sensitivity_is_the_mean_error_of_each_training(out: Path) -> None:
    found = read(out / "records")["sensitivity"]
    cells = {(row["encoding"], row["background"]) for row in found.to_pylist()}
    assert cells == {("standardised", "quirk"), ("standardised", "mean"), ("0/1", "mean")}
    assert set(found["stopping"].to_pylist()) == {"20 epochs"}
    base = prepare(SPEC, OTHERS[0], out)
    errors = []
    for number in (0, 1):
        answer = base.explain(METHODS["shear"], 16 * 13 + 2, seed=draws(0, number))
        errors.append(np.abs(answer.values - base.truth.values).sum(axis=1).mean())
    mine = where(found, encoding="standardised", background="quirk", method="shear", n=16)
    assert column(mine, "error").tolist() == pytest.approx([np.mean(errors)])
    assert column(mine, "size")[0] == pytest.approx(np.abs(base.truth.values).sum(axis=1).mean())
    assert set(column(where(found, method="kriging"), "n")) == {8, 16}


def test_recipes_are_told_apart(out: Path) -> None:
    models = read(out / "records")["models"].to_pylist()
    assert [row["recipe"] for row in models] == ["ours", "authors", "authors-mean"]
    ours, authors, mean = models
    assert (ours["encoding"], ours["split"], ours["stopping"], ours["background"]) == (
        "0/1", "stratified, by seed", "patience", "mean",
    )  # fmt: skip
    assert (authors["encoding"], authors["split"], authors["stopping"], authors["background"]) == (
        "standardised", "scikit-learn, random state 0", "20 epochs", "quirk",
    )  # fmt: skip
    assert mean["background"] == "mean"
    # the same network, explained against another background
    assert mean["accuracy"] == authors["accuracy"]
    assert mean["size"] != authors["size"]
    assert {row["truth_error"] for row in models} == {row["truth_absolute_error"] for row in models}
    assert {row["truth_error"] for row in models} == {0.0}


def test_the_illustrated_row_explains_the_margin(out: Path, subject: Subject) -> None:
    rows = where(read(out / "records")["illustration"], recipe="ours")
    first = rows.slice(0, 1).to_pylist()[0]
    assert column(rows, "exact").sum() == pytest.approx(
        first["prediction"] - first["base_value"], abs=1e-5
    )
    with torch.no_grad():
        logits = subject.trained.network(torch.from_numpy(subject.inputs))
    margins = (logits[:, 1] - logits[:, 0]).numpy()
    assert first["prediction"] == pytest.approx(margins[np.abs(margins - 1.73).argmin()], abs=1e-5)
    assert rows["feature"].to_pylist() == subject.dataset.feature_names


def test_timings_are_of_every_method_and_of_the_cost_models_parts(out: Path) -> None:
    timings = read(out / "records")["timings"]
    batch = where(timings, way="batch")
    one_by_one = where(timings, way="one by one")
    parts = {"forward", "derivatives"}
    assert set(batch["method"].to_pylist()) == {*SPEC.methods, *parts}
    assert set(one_by_one["method"].to_pylist()) == {*SPEC.methods, *parts} - {"kriging"}
    assert (column(timings, "seconds") > 0).all()
    assert (set(column(batch, "rows")), set(column(one_by_one, "rows"))) == ({4}, {1})
    assert set(timings["recipe"].to_pylist()) == {"ours"}


def test_one_by_one_the_network_sees_n_rows_at_a_time(subject: Subject) -> None:
    seen = []
    hook = subject.trained.network.register_forward_hook(
        lambda _module, inputs, _output: seen.append(len(inputs[0]))
    )
    with hook:
        timed = studies.timings(subject, "one by one", [("permutation-paper", 8)], 2, 0)
    assert column(timed, "rows").tolist() == [2]
    assert max(seen) <= 8
    # a row has its N for each of 13 features; before the two rows, one warms up
    assert sum(seen) > 3 * 13 * 6
    assert len(seen) > 3 * 13


# The same again


def test_the_same_specification_gives_the_same_records(
    out: Path, network: Path, tmp_path: Path
) -> None:
    shutil.copytree(network, tmp_path / "again")
    again = run([SPEC], tmp_path / "again")
    for study, records in read(out / "records").items():
        if study != "timings":
            assert again[study].equals(records), study


def test_several_processes_give_the_same_records(network: Path, tmp_path: Path) -> None:
    """Up to rounding, which depends on the number of threads."""
    shutil.copytree(network, tmp_path / "one")
    shutil.copytree(network, tmp_path / "two")
    one = run([SMALL], tmp_path / "one")
    two = run([SMALL], tmp_path / "two", processes=2)
    for study in ("estimates", "bounds", "illustration"):
        assert len(two[study]) == len(one[study]) > 0
    np.testing.assert_allclose(
        column(two["estimates"], "absolute_error"),
        column(one["estimates"], "absolute_error"),
        atol=1e-5,
    )
    assert len(two["timings"]) == len(one["timings"]) > 0


def test_a_finished_run_computes_nothing(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = read(out / "records")
    _forbid(monkeypatch)
    after = run([SPEC], out, command=COMMAND)
    assert all(after[study].equals(before[study]) for study in STUDIES)


def _forbid(monkeypatch: pytest.MonkeyPatch) -> None:
    def computed(*_: object, **__: object) -> pa.Table:
        raise AssertionError("computed again")

    for name in (*STUDIES, "describe", "score_truth"):
        if name == "models":
            continue
        monkeypatch.setattr(studies, name, computed)


class Interrupted:
    """`part`, which stops after so many records were computed."""

    def __init__(self, after: int) -> None:
        self.left, self.computed = after, 0

    def __call__(self, store: Store, study: str, name: str, compute: object) -> pa.Table:
        def counted() -> pa.Table:
            if not self.left:
                raise KeyboardInterrupt
            self.left, self.computed = self.left - 1, self.computed + 1
            return compute()  # type: ignore[operator]

        return part(store, study, name, counted)


@pytest.mark.parametrize("after", [0, 1, 20])
def test_an_interrupted_run_goes_on_where_it_was(
    out: Path, network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    shutil.copytree(network, tmp_path / "out")
    module = sys.modules["shearshap_lab.experiments.runner"]
    first, second = Interrupted(after), Interrupted(10**9)
    monkeypatch.setattr(module, "part", first)
    with pytest.raises(KeyboardInterrupt):
        run([SMALL], tmp_path / "out")
    assert not (tmp_path / "out" / "records").exists()
    monkeypatch.setattr(module, "part", second)
    records = run([SMALL], tmp_path / "out")
    assert first.computed == after
    assert first.computed + second.computed == len(list(tasks(SMALL, OURS)))
    whole = where(read(out / "records")["estimates"], recipe="ours", round=0, n=16)
    mine = records["estimates"]
    for method in SMALL.methods:
        assert where(mine, method=method).equals(where(whole, method=method).combine_chunks())


def test_a_run_that_is_killed_loses_nothing(network: Path, tmp_path: Path) -> None:
    """A real process, a real SIGKILL: what was finished stays as it is, and the rest follows."""
    shutil.copytree(network, tmp_path / "out")
    words = (
        "'census', model_seeds=(0,), protocol='fair', evaluations=(16,), rounds=1, rows=6, "
        "timings=1, timed_rows=4, rows_one_by_one=1"
    )
    script = (
        "from shearshap_lab.experiments import Spec, run; "
        f"run([Spec({words})], {str(tmp_path / 'out')!r})"
    )
    # one thread, as every process of the tests has
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen([sys.executable, "-c", script], env=environment)
    parts = tmp_path / "out" / "parts" / "estimates"
    deadline = time.monotonic() + 120
    while len(list(parts.glob("*.parquet"))) < 5 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    finished = {path: path.stat().st_mtime_ns for path in parts.glob("*.parquet")}
    assert len(finished) >= 5
    subprocess.run([sys.executable, "-c", script], check=True, env=environment)
    assert {path: path.stat().st_mtime_ns for path in finished} == finished
    estimates = read(tmp_path / "out" / "records")["estimates"]
    assert len(estimates) == 6 * (1 + len(SMALL.methods) + len(ABLATIONS))


def test_more_rounds_keep_those_there_are(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(out, tmp_path / "out")
    counter = Interrupted(10**9)
    monkeypatch.setattr(sys.modules["shearshap_lab.experiments.runner"], "part", counter)
    records = run([replace(SPEC, rounds=3)], tmp_path / "out")
    rounds = 2 * (len(SPEC.methods) - len(SLOW) + len(ABLATIONS)) + len(REBASED)
    assert counter.computed == rounds
    assert (
        where(records["estimates"], round=1).num_rows
        == where(records["estimates"], round=2).num_rows
    )


def test_other_rows_or_another_network_are_not_mistaken_for_these(
    out: Path, tmp_path: Path
) -> None:
    subjects = [prepare(SPEC, OURS, out), prepare(SPEC, replace(OURS, rows=5), out)]
    put(tmp_path / "other", RECIPES["ours"], epochs=1)
    subjects.append(prepare(SPEC, OURS, tmp_path / "other"))
    subjects += [prepare(SPEC, AUTHORS, out), prepare(SPEC, AUTHORS_MEAN, out)]
    task = named(tasks(SPEC, OURS), "shear-round0")
    assert len({task.file_name(subject) for subject in subjects}) == 5


def named(several: Iterator[Task], name: str) -> Task:
    (task,) = (task for task in several if (task.study, task.name) == ("estimates", name))
    return task


def test_other_code_is_not_served_from_old_parts(
    subject: Subject, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    task = named(tasks(SPEC, OURS), "shear-round0")
    before = task.file_name(subject)
    folder = network_folder(SPEC, RECIPES["ours"], 0, tmp_path)
    assert network_folder(SPEC, RECIPES["authors"], 0, tmp_path) != folder
    assert network_folder(SPEC, RECIPES["ours"], 1, tmp_path) != folder
    monkeypatch.setattr("shearshap_lab.experiments.runner.code_of_studies", lambda: "other")
    assert task.file_name(subject) != before
    monkeypatch.setattr("shearshap_lab.experiments.subject.code_of_training", lambda: "other")
    assert network_folder(SPEC, RECIPES["ours"], 0, tmp_path) != folder


def test_damaged_records_are_computed_again(tmp_path: Path) -> None:
    made = STUDIES["bounds"].empty_table()
    store = Store(tmp_path, "parts")
    part(store, "bounds", "part.parquet", lambda: made)
    path = tmp_path / "parts" / "part.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    calls = []
    again = part(store, "bounds", "part.parquet", lambda: calls.append(1) or made)  # type: ignore[func-returns-value]
    assert again.equals(made)
    assert calls == [1]


# Where they come from


def test_records_say_where_they_come_from(out: Path) -> None:
    facts = provenance(out / "records")
    assert list(facts) == ["commit", "code", "versions", "machine", "threads", "seconds", "command"]
    assert facts["command"] == "shear paper reproduce census"
    assert facts["code"] == origin.code_of_studies()
    assert re.fullmatch("unknown|[0-9a-f]{40}(-dirty)?", facts["commit"])
    assert facts["threads"] == torch.get_num_threads()
    assert facts["seconds"] > 1


def test_what_a_stopped_run_took_is_added(
    network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(network, tmp_path / "out")
    module = sys.modules["shearshap_lab.experiments.runner"]
    monkeypatch.setattr(module, "part", Interrupted(5))
    with pytest.raises(KeyboardInterrupt):
        run([SMALL], tmp_path / "out")
    (kept,) = (tmp_path / "out" / "parts").glob("seconds-*.txt")
    before = float(kept.read_text())
    assert before > 0
    kept.write_text("1000.0")
    monkeypatch.setattr(module, "part", part)
    run([SMALL], tmp_path / "out")
    assert provenance(tmp_path / "out" / "records")["seconds"] > 1000


def test_the_commit_is_unknown_outside_a_repository(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(code_state, "PACKAGE", tmp_path)
    assert code_state.commit() == "unknown"


def test_the_commit_is_that_of_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def git(*words: str) -> None:
        names = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(
            ["git", *names, "-C", str(tmp_path), *words], check=True, capture_output=True
        )

    git("init")
    monkeypatch.setattr(code_state, "PACKAGE", tmp_path)
    module = tmp_path / "__init__.py"
    module.write_text("1")
    assert code_state.commit() == "unknown"  # a repository of something else
    git("add", ".")
    git("commit", "-m", "first")
    assert re.fullmatch("[0-9a-f]{40}", code_state.commit())
    module.write_text("2")
    assert re.fullmatch("[0-9a-f]{40}-dirty", code_state.commit())


# The command and the report


def test_the_command_says_what_it_found_and_where(
    network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(network, tmp_path / "out")
    words = [
        "reproduce",
        "census",
        "--quick",
        "--rows",
        "3",
        "--rounds",
        "1",
        "--protocol",
        "fair",
        "--out",
        str(tmp_path / "out"),
    ]
    monkeypatch.setattr(sys, "argv", ["shear", *words])
    # quicker than quick: the command is under test, not the size of its experiments
    monkeypatch.setattr("shearshap_lab.experiments.spec._quick_spec", lambda _name: SPEC)
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert (result.exit_code, result.stderr) == (0, ""), result.exception
    assert "prediction, f1 - f0" in result.stdout
    assert re.search(r"fair\s+absolute error at N = 16: Kriging [\d.e-]+, ", result.stdout)
    assert f"report    {tmp_path / 'out' / 'report.html'}" in result.stdout
    page = (tmp_path / "out" / "report.html").read_text()
    assert "shear paper reproduce census --quick --rows 3" in re.sub(r"<[^>]+>", "", page)
    assert "### Absolute error, fair" in (tmp_path / "out" / "tables.md").read_text()


@pytest.mark.parametrize("rows", [1, 2])
def test_the_command_says_what_few_rows_cannot_show(
    network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    out = tmp_path / "out"
    shutil.copytree(network, out)
    words = ["reproduce", "census", "--quick", "--rows", str(rows), "--protocol", "fair"]
    monkeypatch.setattr("shearshap_lab.experiments.spec._quick_spec", lambda _name: SMALL)
    result = CliRunner().invoke(
        app, [*words, "--out", str(out), "--docs", str(out)], catch_exceptions=False
    )
    assert (result.exit_code, result.stderr) == (0, ""), result.exception
    page = (out / "reproduction.md").read_text()
    assert "for one feature across rows there are too few rows." in page
    assert ("too few rows for intervals" in page) == (rows == 1)
    # one row of one network has no interval, so it wins and loses nothing
    error = next(line for line in page.splitlines() if "smallest error for" in line)
    assert bool(re.search(r"\*\*[\d.]+ \[[\d.]+, [\d.]+\]\*\*", error)) == (rows == 2)
    if rows == 1:
        claim = "| SHEAR has the smallest error for the same evaluations |"
        assert f"{claim} - | fair **0-5-0** |" in page
    assert "nan" not in re.findall(r"\w+", page + (out / "tables.md").read_text())
    report = (out / "report.html").read_text()
    assert "too few rows" in report  # the panel of correlations across rows


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["wine"],
            "error: there is nothing to reproduce on 'wine'; there are: census, bank, german, criteo, all\n",
        ),
        (
            ["census", "--protocol", "best"],
            "error: protocol: wanted paper, fair or both, got 'best'\n",
        ),
        (
            ["census", "--path", "x"],
            "error: path: only criteo reads a file of yours, census needs none; got 'x'\n",
        ),
        (["criteo", "--path", "nowhere.txt"], "error: path: there is no file 'nowhere.txt'\n"),
        (["census", "--rows", "7000"], "error: rows: census has 6513 test rows, got 7000\n"),
    ],
)
def test_mistakes_are_told_before_any_work(words: list[str], message: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["reproduce", *words, "--out", str(tmp_path / "out")])
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", message)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("missing", ["pyarrow", "matplotlib", "jinja2", "safetensors"])
def test_a_missing_extra_is_told_before_any_work(missing: str, tmp_path: Path) -> None:
    script = f"""
import sys
sys.modules[{missing!r}] = None
from shearshap.cli import app
from shearshap.store import Store
app(["reproduce", "census", "--quick", "--out", {str(tmp_path / "out")!r}])
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr
        == f"error: shear paper reproduce needs {missing}: pip install 'shearshap[paper]'\n"
    )
    assert not (tmp_path / "out").exists()


def test_a_stopped_command_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("shearshap_lab.experiments.run", stopped)
    result = CliRunner().invoke(app, ["reproduce", "census", "--out", str(tmp_path / "out")])
    assert (result.exit_code, result.stdout) == (130, "")
    assert (
        result.stderr
        == "stopped; what is finished is kept, and the same command goes on from there\n"
    )


def test_a_disk_that_refuses_is_told_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file where a folder should be")
    result = CliRunner().invoke(
        app, ["reproduce", "census", "--quick", "--out", str(tmp_path / "out")]
    )
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1


def test_every_method_of_the_library_is_measured() -> None:
    assert set(SPEC.methods) >= {*METHODS, *BASELINES} - {"exact", "auto"}


def test_what_is_printed_is_in_the_records(out: Path) -> None:
    records = read(out / "records")
    text = printed(records)
    for row in records["illustration"].to_pylist():
        shear = re.escape(f"{row['shear']:+.4f}")
        assert re.search(rf"^  {row['feature']} .*{shear}", text, flags=re.MULTILINE)


@pytest.fixture(scope="session")
def driver() -> Iterator["Chrome"]:
    with browser.chromium() as driver:
        yield driver


def test_the_report_can_be_read_in_a_browser(out: Path, driver: "Chrome") -> None:
    path = report(out)
    for width in (360, 1280):
        browser.visit(driver, path, width=width)
        driver.execute_script(
            "for (const each of document.querySelectorAll('.folded')) each.open = true"
        )
        assert browser.console(driver) == []
        assert browser.overlapping_text(driver) == []
        assert driver.execute_script(
            "return document.documentElement.scrollWidth <= window.innerWidth"
        )
    assert [
        request for request in browser.requests(driver) if not request.startswith("file:")
    ] == []
    figures = driver.find_elements("css selector", "figure.panels svg.plot")
    panels = {"Figure 2": 14, "3": 6, "4 a-c": 6, "4 d-f": 8, "theory": 6, "training": 2, "row": 1}
    assert len(figures) == sum(panels.values())
    assert all(figure.size["width"] > 200 and figure.size["height"] > 100 for figure in figures)
    assert len(driver.find_elements("css selector", "svg use > title")) > 300
