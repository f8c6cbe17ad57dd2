"""Absent features given the present ones: against closed forms, by laws, and from every front end."""

import pickle
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor

import shearshap.games.conditional as conditional_module
import shearshap.games.learned as learned_module
from definitions import interaction_index
from shearshap import Conditional, Explainer, InputError, explain, model_game
from shearshap.apps.jobs.options import BackgroundOption
from shearshap.games.conditional import Columns, Empirical, covariance, fitted, gains, moved
from shearshap.games.learned import Learned
from shearshap.result.importance import student_quantile

Floats = NDArray[np.float64]
WIDTH = 4
KINDS = ("copula", "gaussian", "empirical", "learned")


@pytest.fixture(autouse=True)
def _few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let networks train for a moment: what they learn is tested apart."""
    monkeypatch.setattr(learned_module, "STEPS", 100)


@cache
def gaussian_rows(count: int = 4_000, width: int = WIDTH) -> Floats:
    places = np.arange(width)
    correlated = 0.8 ** np.abs(places[:, None] - places)
    return np.random.default_rng(0).multivariate_normal(places, correlated, size=count)


def conditional_mean(
    row: Floats, present: list[int], mean: Floats, cov: Floats
) -> tuple[Floats, Floats]:
    """The mean and covariance of all columns of a Gaussian, given the present ones of a row."""
    cross = cov[:, present]
    gain = (
        cross @ np.linalg.inv(cov[np.ix_(present, present)])
        if present
        else np.zeros((len(mean), 0))
    )
    return mean + gain @ (row[present] - mean[present]), cov - gain @ cross.T


def shapley_values(tables: Floats) -> Floats:
    """The Shapley values (p, ...) of tables (2^p, ...), by definition."""
    players = len(tables).bit_length() - 1
    return np.stack([interaction_index(tables, (player,)) for player in range(players)])


def quadratic(rows: Floats) -> Floats:
    return rows @ np.arange(1, WIDTH + 1) + rows[:, 0] * rows[:, 3] - rows[:, 1] ** 2


def true_values(rows: Floats, mean: Floats, cov: Floats) -> Floats:
    """The conditional Shapley values of the quadratic model, by definition."""
    tables = np.empty((1 << WIDTH, len(rows)))
    for coalition in range(1 << WIDTH):
        present = [column for column in range(WIDTH) if coalition >> column & 1]
        for at, row in enumerate(rows):
            m, c = conditional_mean(row, present, mean, cov)
            tables[coalition, at] = quadratic(m[None])[0] + c[0, 3] - c[1, 1]
    return shapley_values(tables).T


# Against the truth


def test_values_of_a_gaussian_agree_with_the_closed_form() -> None:
    train = gaussian_rows()
    rows = train[:6]
    truth = true_values(rows, train.mean(axis=0), np.cov(train.T, bias=True))
    found = Explainer(quadratic, Conditional(train, "gaussian", samples=4_000))(rows, budget=64_000)
    assert np.abs(found.values - truth).max() < 0.02 * np.abs(truth).max()
    assert found.method == "exact"
    assert found.standard_errors is not None
    low, high = found.interval()
    assert ((low <= truth) & (truth <= high)).mean() > 0.95


def test_draws_of_a_gaussian_have_no_error_for_a_linear_model() -> None:
    train = gaussian_rows()
    slopes = np.array([1.0, -2.0, 3.0, 0.5])
    model = LinearRegression().fit(train, train @ slopes)
    found = Explainer(model, Conditional(train, "gaussian", samples=10))(train[:3], budget=160)
    assert found.method == "exact", "and not by coefficients, which would be marginal values"
    mean, cov = train.mean(axis=0), np.cov(train.T, bias=True)
    tables = np.empty((16, 3))
    for coalition in range(16):
        present = [column for column in range(4) if coalition >> column & 1]
        for at, row in enumerate(train[:3]):
            tables[coalition, at] = conditional_mean(row, present, mean, cov)[0] @ slopes
    np.testing.assert_allclose(found.values, shapley_values(tables).T, atol=1e-4)


def test_a_copula_does_not_depend_on_the_scale_of_columns() -> None:
    train = gaussian_rows(20_000)
    bent = np.exp(train)
    model = DecisionTreeRegressor(max_depth=4).fit(train, quadratic(train))
    rows = slice(0, 5)
    found = Explainer(lambda x: model.predict(np.log(x)), Conditional(bent, samples=2_000))(
        bent[rows], budget=32_000
    )
    same = Explainer(model, Conditional(train, "gaussian", samples=2_000))(
        train[rows], budget=32_000
    )
    scale = np.abs(same.values).max()
    assert np.abs(found.values - same.values).max() < 0.03 * scale


@pytest.mark.parametrize("kind", ["empirical", "learned"])
def test_other_kinds_are_near_the_truth(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learned_module, "STEPS", 400)
    train = gaussian_rows()
    rows = train[:20]
    truth = true_values(rows, train.mean(axis=0), np.cov(train.T, bias=True))
    found = Explainer(quadratic, Conditional(train, kind))(rows, budget=1_600).values
    marginal = Explainer(quadratic, train)(rows, budget=1_600).values
    assert np.abs(found - truth).mean() < 0.5 * np.abs(marginal - truth).mean()


@pytest.mark.slow
def test_intervals_cover_the_truth() -> None:
    train = gaussian_rows()
    rows = train[:10]
    truth = true_values(rows, train.mean(axis=0), np.cov(train.T, bias=True))
    covered = []
    kinds: list[Any] = ["gaussian", "copula"]
    for seed in range(10):
        for kind in kinds:
            background = Conditional(train, kind, samples=30)
            found = Explainer(quadratic, background, seed=seed)(rows, budget=241)
            low, high = found.interval()
            covered.append((low <= truth) & (truth <= high))
    assert np.mean(covered) > 0.9


# Laws


@pytest.mark.parametrize("kind", KINDS)
def test_values_sum_up_and_seeds_repeat(kind: Any) -> None:
    train = gaussian_rows(500)
    background = Conditional(train, kind, samples=20)
    found = explain(quadratic, train[:3], background=background, budget=200, seed=3)
    np.testing.assert_allclose(
        found.values.sum(axis=1), found.predictions - found.base_values, atol=1e-6
    )
    again = explain(
        quadratic, train[:3], background=Conditional(train, kind, 20), budget=200, seed=3
    )
    np.testing.assert_array_equal(found.values, again.values)
    alone = explain(quadratic, train[1:2], background=background, budget=320, seed=3)
    both = explain(quadratic, train[:2], background=background, budget=320, seed=3)
    np.testing.assert_allclose(alone.values[0], both.values[1], atol=1e-9)
    assert found.evaluations <= 200
    assert f"20 samples of features that move together ({kind} of 500 rows)" == found.background


@given(st.integers(0, 1 << 30), st.integers(2, 6))
@settings(max_examples=20)
def test_a_moved_draw_is_matherons_rule(seed: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(width, width))
    cov = roots @ roots.T + 0.1 * np.eye(width)
    present = rng.random((1, 3, width)) < 0.5
    rows, draws = rng.normal(size=(2, width)), rng.normal(size=(5, width))
    gain = gains(torch.from_numpy(cov), torch.from_numpy(present))
    shift = torch.from_numpy(rows[:, None] - draws)
    found = moved(torch.from_numpy(draws)[None], shift, gain).numpy()
    by_row = moved(torch.from_numpy(draws)[None], shift, gain.expand(2, -1, -1, -1)).numpy()
    np.testing.assert_allclose(found, by_row)
    for at in range(3):
        own = np.flatnonzero(present[0, at])
        step = np.linalg.solve(cov[np.ix_(own, own)], (rows[:, None] - draws)[..., own, None])
        expected = draws + (cov[:, own] @ step)[..., 0]
        absent = ~present[0, at]
        np.testing.assert_allclose(found[:, at][..., absent], expected[..., absent], atol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_coalitions_of_each_row_have_the_values_of_shared_ones(kind: Any) -> None:
    """Some methods ask for other coalitions of every row, and rows come alone or together."""
    train = np.round(gaussian_rows(200))  # with ties
    rows = train[[0, 1, 1, 2, 3]]
    sets = torch.tensor([[bool(n >> i & 1) for i in range(WIDTH)] for n in range(1 << WIDTH)])
    with model_game(quadratic, rows, background=Conditional(train, kind, samples=6)) as game:
        shared = game(sets[None])
        order = torch.stack([torch.randperm(len(sets)) for _ in rows])
        own = game(sets[order])
        alone = game.take(slice(3, 4))(sets[None])
    np.testing.assert_allclose(own, shared.gather(1, order[..., None]), atol=1e-9)
    np.testing.assert_allclose(alone, shared[3:4], atol=1e-9)


def test_of_many_training_rows_some_are_compared_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws are rows among them; the rows lie along the first principal component."""
    monkeypatch.setattr(conditional_module, "MAX_COMPARED_ROWS", 50)
    train = gaussian_rows(300)
    law = fitted("empirical", torch.from_numpy(train), seed=0)
    assert isinstance(law, Empirical)
    assert "The nearest training rows are searched among 50 of 300." in law.notes
    assert law.scores.shape == law.places.shape == (50, WIDTH)
    axis = torch.linalg.eigh(law.covariance).eigenvectors[:, -1]
    assert (torch.diff(law.scores @ axis) >= 0).all()
    # places of one training row: its numbers' ranks among each column's
    ranks = {tuple(rank) for rank in train.argsort(axis=0).argsort(axis=0).tolist()}
    assert {tuple(place) for place in law.places.tolist()} <= ranks
    assert len(law.places.unique(dim=0)) == 50

    present = torch.tensor([[[True, False, False, True], [False] * 4]])
    draws = law.draws(7, np.random.default_rng(0))[None]
    drawn = law.fill(torch.from_numpy(train[:2]), present, draws)
    assert {tuple(place) for place in drawn.flatten(0, 2).tolist()} <= ranks


@pytest.mark.parametrize("kind", ["copula", "gaussian"])
def test_independent_columns_have_marginal_values(kind: Any) -> None:
    """The sampler of uncorrelated columns leaves its draws where they are."""
    train = np.random.default_rng(0).normal(size=(2_000, WIDTH))
    background = Conditional(train, kind, samples=16)
    law = background.fitted(train, train, range(WIDTH), 0)
    law.covariance = torch.eye(WIDTH, dtype=torch.float64)  # type: ignore[attr-defined]
    with model_game(quadratic, train[:2], background=background) as game:
        nobody = torch.zeros(1, 1, WIDTH, dtype=torch.bool)
        drawn = game.sampler.fill(game.inputs, nobody[..., :], game.background[None])[0, 0].numpy()  # type: ignore[union-attr]
    found = Explainer(quadratic, background)(train[:2], budget=16 * 16)
    same = Explainer(quadratic, drawn)(train[:2], budget=16 * 16)
    np.testing.assert_allclose(found.values, same.values, atol=1e-9)


def test_intervals_of_interactions_count_the_draws() -> None:
    """Against twenty times as many draws; all coalitions are evaluated, so that draws alone err."""
    train = gaussian_rows(500)
    background = Conditional(train, "gaussian", samples=1_000)
    truth = Explainer(quadratic, background)(train[:4], interactions=3, budget=16_000)
    within = []
    for seed in range(8):
        background = Conditional(train, "gaussian", samples=50)
        found = Explainer(quadratic, background, seed=seed)(train[:4], interactions=3)
        assert found.set_values is not None
        assert found.set_errors is not None
        assert truth.set_values is not None
        assert found.degrees_of_freedom == 9
        reach = student_quantile(0.95, 9) * found.set_errors + 1e-9
        within.append(np.abs(found.set_values - truth.set_values) <= reach)
    assert 0.88 < np.mean(within) < 0.99


def test_interactions_of_independent_columns_are_marginal() -> None:
    """Whose sample correlations are 0, too."""
    train = np.random.default_rng(0).normal(size=(2_000, 4))
    train = np.sqrt(2_000) * np.linalg.qr(train - train.mean(axis=0))[0]
    found = Explainer(quadratic, Conditional(train, "gaussian"))(train[:3], interactions=True)
    marginal = Explainer(quadratic, ("all", train))(train[:3], interactions=True, budget=32_000)
    assert found.interactions is not None
    assert found.interaction_errors is not None
    assert marginal.interactions is not None
    gaps = np.abs(found.interactions - marginal.interactions)
    assert (gaps <= 5 * found.interaction_errors + 1e-2).all()


def test_a_feature_that_the_model_ignores_has_a_value_through_others() -> None:
    train = gaussian_rows()
    found = Explainer(lambda x: x[:, 0], Conditional(train))(train[:5], budget=1_600)
    marginal = Explainer(lambda x: x[:, 0], train)(train[:5], budget=1_600)
    assert np.abs(found.values[:, 1]).max() > 0.1
    assert np.abs(marginal.values[:, 1]).max() < 1e-9


def test_groups_condition_on_all_their_columns() -> None:
    train = gaussian_rows()
    background = Conditional(train, "gaussian", samples=50)
    with model_game(quadratic, train[:2], background=background, groups=[[0, 1], [2, 3]]) as game:
        grouped = game(torch.tensor([[[True, False]]]))
    with model_game(quadratic, train[:2], background=background) as game:
        single = game(torch.tensor([[[True, True, False, False]]]))
    torch.testing.assert_close(grouped, single)


# Frames


def city_frame(count: int = 600) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    kind = rng.integers(3, size=count)
    return pd.DataFrame(
        {
            "city": np.array(["Rome", "Oslo", "Bern"])[kind],
            "size": pd.Categorical.from_codes(kind, ["s", "m", "l"], ordered=True),
            "rent": kind + rng.normal(0, 0.3, count),
            "floors": kind + rng.integers(2, size=count),
            "own": kind == 2,
        }
    )


def rent_model(frame: Any) -> Floats:
    known = {"Rome", "Oslo", "Bern"}
    assert set(frame["city"].to_list()) <= known
    bern = np.array([city == "Bern" for city in frame["city"].to_list()])
    return np.asarray(frame["rent"].to_numpy() + 2 * bern + frame["floors"].to_numpy() * 0.1)


@pytest.mark.parametrize("kind", ["copula", "empirical", "learned"])
def test_frames_with_words_go_in_and_reach_the_model(kind: Any) -> None:
    frame = city_frame()
    types = frame.dtypes

    def model(mixed: pd.DataFrame) -> Floats:
        assert (mixed.dtypes == types).all()
        return rent_model(mixed)

    found = Explainer(model, Conditional(frame, kind))(frame[:10])
    assert found.standard_errors is not None
    np.testing.assert_allclose(found.predictions, rent_model(frame[:10]))
    # the city tells the rent, so that its own value moves with it
    assert np.corrcoef(found.values[:, 0], frame["rent"][:10])[0, 1] > 0.5


def test_frames_of_polars_have_the_same_values() -> None:
    frame = city_frame().drop(columns="size")
    found = Explainer(rent_model, Conditional(frame))(frame[:3])
    same = Explainer(rent_model, Conditional(pl.from_pandas(frame)))(pl.from_pandas(frame[:3]))
    np.testing.assert_allclose(found.values, same.values)


def test_a_gaussian_of_a_frame_takes_the_nearest_training_numbers() -> None:
    frame = pd.DataFrame(gaussian_rows(3_000), columns=list("abcd")).round(1)
    found = Explainer(lambda x: quadratic(x.to_numpy()), Conditional(frame, "gaussian"))(frame[:3])
    of_array = Explainer(quadratic, Conditional(frame.to_numpy(), "gaussian"))(frame[:3].to_numpy())
    assert np.abs(found.values - of_array.values).max() < 0.3


# Parts


def test_scores_of_ties_are_intervals_of_the_normal_scale() -> None:
    columns = Columns(torch.tensor([[0.0], [0.0], [1.0], [2.0]], dtype=torch.float64))
    within = torch.tensor([[[0.5]], [[0.5]], [[0.5]]], dtype=torch.float64)
    scores = columns.scores(torch.tensor([[0.0], [1.0], [9.0]], dtype=torch.float64), within)
    expected = norm.ppf([0.25, 0.625, 1 - 0.25 / 4])
    np.testing.assert_allclose(scores[:, 0, 0], expected)
    numbers = torch.tensor([[-5.0], [0.4], [1.6], [7.0]], dtype=torch.float64)
    assert columns.ordered[0, columns.nearest(numbers)[:, 0]].tolist() == [0.0, 0.0, 2.0, 2.0]


def test_nearest_rows_are_those_of_a_slow_search() -> None:
    train = torch.from_numpy(gaussian_rows(100))
    law = fitted("empirical", train, 0)
    assert isinstance(law, Empirical)
    present = torch.tensor([[[True, False, True, False], [False] * 4]])
    weights = law._weights(train[:3], present)
    assert (weights[:, 1] == 1).all(), "nothing is known, so that all rows count equally"
    cov = np.linalg.inv(law.covariance[::2, ::2].numpy())
    own = law.columns.scores(train[:3], torch.tensor(0.5))[:, 0, ::2].numpy()
    for row in range(3):
        gaps = law.scores[:, ::2].numpy() - own[row]
        distances = np.einsum("ni,ij,nj->n", gaps, cov, gaps)
        limit = np.sort(distances)[9]
        expected = np.where(distances <= limit, np.exp(-2 * distances / limit), 0)
        np.testing.assert_allclose(weights[row, 0], expected, atol=1e-5)


def test_few_rows_have_a_shrunk_covariance_and_a_note() -> None:
    train = gaussian_rows(12, 10)
    found, notes = covariance(torch.from_numpy(train))
    assert float(torch.linalg.eigvalsh(found).min()) > 1e-3
    assert "12 training rows are few for the covariance of 10 columns" in notes[0]
    explanation = Explainer(lambda x: x.sum(axis=1), Conditional(train))(train[:2])
    assert any("are shrunk by" in note for note in explanation.notes)
    assert "not how well 12 training rows show which features move together" in " ".join(
        str(explanation).split()
    )


@pytest.mark.slow
def test_a_learned_distribution_says_when_a_copula_is_better(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    law = fitted("learned", torch.from_numpy(gaussian_rows(300)), 0)
    assert "worse than a Gaussian copula" in law.notes[0]
    monkeypatch.setattr(learned_module, "STEPS", 500)
    angle = rng.uniform(0, 2 * np.pi, 1_500)
    circle = np.stack((np.cos(angle), np.sin(angle)), axis=1) + rng.normal(0, 0.05, (1_500, 2))
    law = fitted("learned", torch.from_numpy(circle), 0)
    assert isinstance(law, Learned)
    assert not any("copula" in note for note in law.notes)
    assert law.score < law.copula_score - 0.3


# Front ends, and what is refused


def test_prepared_explainers_pickles_and_interactions() -> None:
    train = gaussian_rows(500)
    background = pickle.loads(pickle.dumps(Conditional(train, samples=16)))
    explainer = Explainer(quadratic, background)
    whole = explainer(train[:4], budget=256)
    prepared = explainer.prepare(train[:4], budget=256)
    np.testing.assert_allclose(prepared.explain(train[:4]).values, whole.values)
    assert prepared.explain(train[:1]).background == whole.background
    pairs = explainer(train[:2], budget=256, interactions=True)
    np.testing.assert_allclose(pairs.values, whole.values[:2], atol=1e-6)
    few = Explainer(quadratic, Conditional(train, samples=3))(train[:2], interactions=True)
    assert few.standard_errors is None
    assert few.interaction_errors is not None
    assert np.isinf(few.interaction_errors).all()
    assert any("fewer than 4 samples" in note for note in few.notes)
    assert explainer.expected_value == pytest.approx(whole.base_values[0])


def test_jobs_take_a_distribution_by_name() -> None:
    option = BackgroundOption.parse("copula:train.csv:50")
    made = option.of_rows(gaussian_rows(100))
    assert isinstance(made, Conditional)
    assert (made.kind, made.samples) == ("copula", 50)
    assert option.words(100) == (
        "50 samples of features that move together (copula of the 100 rows of train.csv)"
    )


def refused(background: Any, rows: Any, model: Any = quadratic) -> str:
    explainer = Explainer(model, background)
    with pytest.raises(InputError) as caught:
        explainer(rows)
    return str(caught.value)


def test_what_is_refused() -> None:
    train = gaussian_rows(50)
    with pytest.raises(InputError, match=r"expected kind to be 'copula', 'gaussian'.*got 'vaeac'"):
        Conditional(train, "vaeac")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="expected 2 or more samples, got 1"):
        Conditional(train, samples=1)
    assert "needs 2 or more rows, got 1" in refused(Conditional(train[:1]), train[:2])
    assert "needs 100 or more training rows" in refused(Conditional(train, "learned"), train[:2])
    images = np.zeros((3, 2, 2), np.float32)
    assert "Conditional is for tables" in refused(Conditional(images), images, torch.nn.Flatten())
    pair = (train[:2], train[:2])
    assert "got a tuple of 2 inputs" in refused(Conditional(pair), pair, lambda a, b: (a + b)[:, 0])

    frame = city_frame(60)
    strange = frame[:2].assign(city=["Rome", "Lima"])
    expected = "row 1 has 'Lima' in column 'city', which no training row of Conditional has"
    assert expected in refused(Conditional(frame), strange, rent_model)
    assert "try Conditional(train, kind='copula')" in refused(
        Conditional(frame, "gaussian"), frame[:2], rent_model
    )
    holes = frame.assign(rent=frame["rent"].where(frame["rent"] > 1))
    expected = "column 'rent' has missing numbers, and Conditional needs complete rows"
    assert expected in refused(Conditional(holes), frame[:2], rent_model)
    assert expected in refused(Conditional(frame), holes[:5], rent_model)
