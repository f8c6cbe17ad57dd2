"""Sampling against several background rows, each with coalitions of its own.

Asking for every coalition at all b background rows costs b times as much as at one. Instead, a row
and a background row are a game of their own, explained by few coalitions, and the answers are
averaged (games/paired.py). So the errors of different coalitions average out too:

    background rows     0    1    2    3    4    5   ...
    designs             A    B    C    A    B    C   ...     a few, dealt out in turn
    Shapley values      phi_0, phi_1, phi_2, ...             of one row; their mean is the answer

If the budget is too small for all background rows, n of them are drawn, evenly among all in the
order of their predictions f. Their mean is corrected by regression on f, which is known for all:

    phi = mean phi_b + slope (mean f over all - mean f over the n)

A standard error has two parts. Coalitions: the pairs' own standard errors s_b. Background rows, if
n < b: the spread of the phi_b, as in sampling without replacement. What even draws and regression
gain is not counted. Effects of rare background rows may be missed, so that no player's spread^2
counts as less than a tenth of the mean over players:

    se^2 = sum s_b^2 / n^2  +  (1 - n/b) spread^2 / n

Draws of a distribution (games/conditional.py) are never all there are: for them 1 - n/b is 1. They
come in opposite pairs, whose means count as one: spread and n are those of the pairs. Games of
different draws may be alike, as those of a linear model are but for a sum over players. Then pairs
with the same design have the same error, and so has kriging with any design. So "auto" takes
permutations, which are unbiased, and many designs; if some are shared, the spread of the designs'
means counts, if that is larger.

Letters: r rows, b background rows, n of them drawn, p players, k outputs.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, isqrt
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from shearshap.engine.loop import Clock, ResultBuffer
from shearshap.engine.plan import Plans
from shearshap.engine.results import ALL_ALIKE, MIN_DEGREES_OF_FREEDOM
from shearshap.engine.run import (
    MAX_DEFAULT_BACKGROUND_ROWS,
    MIN_SPREAD_ROWS,
    Run,
    check_smallest,
)
from shearshap.engine.sampling import FIRST_BLOCK, Sampling, compare_with_model
from shearshap.errors import STOPS, keep_finished
from shearshap.games.batches import OutOfTime
from shearshap.games.coalitions import EMPTY, FULL, end_coalitions
from shearshap.games.game import CoalitionValues, coalition_count
from shearshap.games.marginal import ModelGame
from shearshap.games.paired import PairedGame
from shearshap.methods import name_of
from shearshap.methods.standard_errors import ROUNDING, within
from shearshap.result.explanation import Explanation

MAX_DESIGNS = 32
MAX_CALIBRATED_DESIGNS = 8
"""Designs among which background rows are divided: more take longer, and gain little.

Background rows that share a design share its errors too, in part. Kriging's standard errors allow
for that.
"""

MAX_DRAWN_DESIGNS = 64
"""The same for draws of a distribution, whose games are often alike, and err alike."""

BLOCK_ENTRIES = 1 << 23
"""Shapley values of pairs that are held at once: rows x background rows x players x outputs."""

BLOCK_INPUTS = 1 << 25
"""Inputs of the pairs of a design that are held at once."""

FEW_PER_PLAYER = 4
"""Coalitions per player up to which all pairs share one kernel of kriging: others gain little."""

MAX_PARTS = 10
"""Parts of the draws, at most, whose spread shows the error of interactions."""

MIN_SPREAD = 0.1
"""A player's variance over background rows, at least, as a part of the mean over players."""

MIN_REGRESSED = MIN_SPREAD_ROWS
"""Background rows from which on the slope is fitted; with fewer it is -1 / p for every player."""


def sampling(game: ModelGame, run: Run, *, plans: Plans | None = None, **options: Any) -> Sampling:
    """Return the solver that samples a model's game; see `Sampling` for the options."""
    plans = plans or plans_for(game, run)
    if run.interactions and game.sampler is not None and game.is_mean:
        game = replace(game, parts=max(1, min(MAX_PARTS, game.cost // 2)))
    kind = BackgroundSampling if isinstance(plans, BackgroundPlans) else Sampling
    return kind(game, run, plans=plans, **options)


def plans_for(game: ModelGame, run: Run) -> Plans:
    """Return the plans to sample a model's game, for one background row or for several."""
    return BackgroundPlans(game, run) if run.by_background_row(game) else Plans(game, run)


class BackgroundPlans(Plans):
    """The plans of each design, and which background rows have it.

    A run with a tolerance has rounds, in which pairs have 1, 2, 4, ... times as many coalitions;
    other runs have one.
    """

    def __init__(self, game: ModelGame, run: Run) -> None:
        budget = run.default_budget(game) if run.budget is None else run.budget
        # draws with all their coalitions have no other error
        is_listed = budget > game.cost * (coalition_count(game) - 2)
        if game.sampler is not None and not is_listed:
            run = replace(run, method=run.method.for_draws())
        self.players = game.players
        self.requested = run
        self.checked = False
        self.base: CoalitionValues | None = None  #: (b, 1, k), of the background rows themselves

        self._game = game.take(slice(0, 1), background=slice(0, 1))  # for the facts about a pair
        smallest = run.method.minimum_per_draw(game)
        minimum = run.method.minimum(self._game)
        # both ends of a pair are known, and the prediction is asked for once
        check_smallest(run.method, minimum - 1, game.players, budget)
        smallest = max(smallest, minimum - 2)
        count = min(game.cost, max(1, (budget - 1) // smallest))
        if game.sampler is not None and count > MAX_DEFAULT_BACKGROUND_ROWS:
            # draws and coalitions grow alike: errors of few coalitions would stay the same
            count = isqrt(MAX_DEFAULT_BACKGROUND_ROWS * count)
        if game.sampler is not None and count > 1:
            count -= count % 2  # draws come in pairs
        if game.weights is not None:
            count = game.cost  # rows that count differently are all needed
        each = min((budget - 1) // count, coalition_count(game) - 2)
        self.rounds = _rounds(each, smallest) if run.stops else [each]  #: coalitions of a pair

        self.count = count  #: n, of the background rows that are drawn
        self.paired = game.sampler is not None and count > 1  #: whether those are pairs
        units = count // 2 if self.paired else count
        most = MAX_CALIBRATED_DESIGNS if run.method.calibrates else MAX_DESIGNS
        self.designs = min(units, MAX_DRAWN_DESIGNS if game.sampler is not None else most)
        self._parts: dict[tuple[int, int], Plans] = {}
        # the first plans are made now: if that fails, nothing has been spent yet
        method = self.part(len(self.rounds) - 1, 0).resolved.method
        self.errors_from = self._errors_from(game, smallest)
        #: whether all pairs have all their coalitions, so that nothing is estimated
        self.exact = method.is_exact and count == game.cost and game.sampler is None
        if method.is_exact and not self.exact and game.sampler is None:
            # all coalitions, but of some background rows only: the values are estimates
            method = run.method.estimator()
        self.resolved = replace(run, method=method, budget=budget)

    def _errors_from(self, game: ModelGame, smallest: int) -> int | None:
        """Return a budget from which on the mean over background rows has standard errors.

        There are at least two of them, each with `smallest` coalitions or more. If pairs have no
        errors of their own, their spread shows it, but only for unbiased estimates.
        """
        method = self.requested.method
        needed = method.errors_from(self._game)
        if needed is None:
            return None
        every = game.cost * (needed - 2) + 1
        if every >= game.cost * coalition_count(game):
            every = game.cost * needed  # then all background rows have the same coalitions
        if game.weights is not None:
            return every
        if smallest >= needed - 2:
            return min(2, game.cost) * smallest + 1
        by_spread = "unbiased" in method.promises and game.cost >= MIN_REGRESSED
        return min(every, MIN_REGRESSED * smallest + 1) if by_spread else every

    def part(self, number: int, design: int) -> Plans:
        """Return the plans of a round's design."""
        if (number, design) not in self._parts:
            run = self.requested
            method = run.method
            if method.calibrates:
                refined = self.rounds[number] > FEW_PER_PLAYER * self.players
                fitted = self._parts[number, 0].calibration if design else None
                known = {} if fitted is None else {"calibration": fitted}
                method = replace(cast(Any, method), refined=refined, **known)
            seed = np.random.SeedSequence([run.seed, number, design]).generate_state(1)[0]
            own = replace(
                run,
                method=method,
                budget=self.rounds[number] + 2,
                tol=None,
                # a single round ends with the deadline, after any stage of each design
                deadline=run.deadline if len(self.rounds) == 1 else None,
                seed=int(seed),
            )
            self._parts[number, design] = Plans(self._game, own)
        return self._parts[number, design]

    @cached_property
    def drawn(self) -> Tensor:
        """The numbers of the background rows drawn, (n,): evenly in the order of predictions."""
        assert self.base is not None, "the background rows' predictions come first"
        outputs = self.base.values[:, 0]
        if self.paired:
            firsts = 2 * self._even(_pair_means(outputs, dim=0), self.count // 2)
            return torch.stack((firsts, firsts + 1), dim=1).flatten()
        return self._even(outputs, self.count)

    def _even(self, outputs: Tensor, count: int) -> Tensor:
        """Pick `count` rows, evenly spaced by their outputs (b, k)."""
        order = outputs[:, outputs.var(dim=0).argmax()].argsort(stable=True).cpu()
        start = np.random.default_rng(self.requested.seed).uniform()
        places = (torch.arange(count) + start) * len(order) / count
        return order[places.long()]

    def places(self, design: int) -> Tensor:
        """Return which of the background rows drawn have a design; a pair of draws has one."""
        units = torch.arange(self.count) // (2 if self.paired else 1)
        return (units % self.designs == design).nonzero()[:, 0]

    @property
    def calibration(self) -> object:
        """That of the first design."""
        return self._parts[max(number for number, _ in self._parts), 0].calibration


def _rounds(each: int, smallest: int) -> list[int]:
    """Return the coalitions of a pair in each round, which add up to at most `each`."""
    rounds = [min(smallest, each)]
    while sum(rounds) + 4 * rounds[-1] <= each:
        rounds.append(2 * rounds[-1])
    left = each - sum(rounds)
    if left > rounds[-1]:
        return [*rounds, left]
    return [*rounds[:-1], rounds[-1] + left]


class BackgroundSampling(Sampling):
    """The solver for a model's game of several background rows."""

    game: ModelGame
    plans: BackgroundPlans
    done = 0  #: rows of the blocks so far

    @property
    def rows_at_once(self) -> int:
        """How many rows the next block may have: at most as many as are done.

        The rows of a block end together. If the model fails, or the call is stopped, those of the
        blocks before are kept.
        """
        if self.plans.base is None:
            return FIRST_BLOCK
        entries = self.plans.count * self.game.players * self.plans.base.values.shape[2]
        inputs = -(-self.plans.count // self.plans.designs) * self.game.inputs.shape[1]
        most = max(1, min(BLOCK_ENTRIES // entries, BLOCK_INPUTS // inputs))
        return min(most, self.done or most)

    @rows_at_once.setter
    def rows_at_once(self, _rows: int) -> None:
        """Ignore the number of rows without background rows of their own."""

    def explain(self, rows: slice, buffer: ResultBuffer, clock: Clock) -> Explanation:
        """Return the explanation of a block; its index is the rows' numbers."""
        clock.bound(self.game.batch)
        game = self.game.take(rows)
        base = self._base()
        everyone = end_coalitions(game.players, game.device)[:, [FULL]]
        predictions = game.take(background=slice(0, 1))(everyone)[:, 0]  # (r, k)
        base_values = game.mean(base.values.transpose(0, 1)[None])[0].expand_as(predictions)
        ends = CoalitionValues(torch.stack((base_values, predictions), dim=1), base.single)
        compare_with_model(game, ends, self.plans)
        self.checks += game.usage.checks

        answer = self._answer(game, predictions, clock)
        active = game.active_players()
        if active is not None:
            answer.know_null_players(active[:, :, None])
        fields = {"values": answer.values, "base_values": base_values, "predictions": predictions}
        notes = [] if self.note is None or self.plans.exact else [self.note]
        if answer.errors is None:
            notes += self._missing_errors()
        if self.plans.resolved.method.note is not None:
            notes.append(self.plans.resolved.method.note)
        if answer.errors is not None:
            fields["standard_errors"] = answer.errors
            if answer.errors.isinf().any():
                notes.append(ALL_ALIKE)
        if base.single:
            fields = {name: part[..., 0] for name, part in fields.items()}
        run = self.plans.resolved
        if run.stops:
            fields["converged"] = answer.converged(run.tol)
        fewest, most = answer.evaluations.aminmax()
        if run.stops or fewest < most:
            fields["row_evaluations"] = answer.evaluations
        self.done = rows.stop
        arrays: dict[str, Any] = {"standard_errors": None}
        arrays |= {name: buffer.array(name, part, rows.start) for name, part in fields.items()}
        return Explanation(
            **arrays,
            evaluations=int(most),
            derivative_passes=answer.derivative_passes,
            check_evaluations=self.checks,
            method=name_of(run.method),
            seed=run.seed,
            calibration=self.plans.calibration,
            **run.index_names,
            degrees_of_freedom=answer.degrees_of_freedom,
            index=np.arange(rows.start, rows.start + game.rows),
            notes=tuple(notes),
        )

    def _base(self) -> CoalitionValues:
        """Return the predictions for all background rows, asked for once, (b, 1, k)."""
        if self.plans.base is None:
            every = torch.arange(self.game.cost)
            pairs = PairedGame.of(self.game.take(slice(0, 1)), every)
            nobody = end_coalitions(self.game.players, self.game.device)[:, [EMPTY]]
            self.plans.base = pairs.evaluate(nobody)
            self.checks += self.game.cost
        return self.plans.base

    def _answer(self, game: ModelGame, predictions: Tensor, clock: Clock) -> "_Answer":
        """Return the answer for all rows of a game; rows that are precise enough end early."""
        rounds = self.plans.rounds
        started = clock.now()
        answer = self._round(game, predictions, 0, clock)
        an_evaluation = (clock.now() - started) / (game.rows * rounds[0])  # seconds
        for number in range(1, len(rounds)):
            left = (~answer.converged(self.plans.requested.tol)).nonzero()[:, 0]
            if not len(left):
                break
            # a round that is cut is of no use: its coalitions are fewer than those of the last
            if clock.left < an_evaluation * len(left) * rounds[number]:
                clock.cut = True
                break
            started = clock.now()
            try:
                later = self._round(game.take(left), predictions[left], number, clock)
            except OutOfTime:
                clock.cut = True
                break
            an_evaluation = (clock.now() - started) / (len(left) * rounds[number])
            answer.replace_rows(left, later)
        answer.evaluations += 1  # for the prediction
        return answer

    def _round(self, game: ModelGame, predictions: Tensor, number: int, clock: Clock) -> "_Answer":
        """Return the answer of a round for rows with these predictions (r, k).

        Raise `OutOfTime` if time is up before all pairs are explained.
        """
        plans = self.plans
        base = self._base()
        shape = (game.rows, plans.count, game.players, predictions.shape[1])
        values = predictions.new_empty(shape)
        errors = predictions.new_full(shape, inf)
        evaluations = torch.zeros(game.rows, dtype=torch.int64)
        passes = 0
        for design in range(plans.designs):
            dealt = plans.places(design)
            members = plans.drawn[dealt]
            others = base.values[members, 0].repeat(game.rows, 1)
            own = predictions.repeat_interleave(len(members), dim=0)
            ends = CoalitionValues(torch.stack((others, own), dim=1), base.single)
            pairs = PairedGame.of(game, members, ends)
            solver = Sampling(pairs, plans.requested, plans=plans.part(number, design))
            if number and not clock.has_time():
                raise OutOfTime(values[:0])
            own_clock = clock.part(plans.designs - design if len(plans.rounds) == 1 else 1)
            try:
                part = solver.explain(slice(0, pairs.rows), ResultBuffer(None), own_clock)
            except STOPS as error:
                keep_finished(error, None)  # pairs are no rows
                raise
            clock.cut |= own_clock.cut
            if len(part) < pairs.rows or (number and own_clock.cut):
                raise OutOfTime(values[:0])

            size = (game.rows, len(members), *shape[2:])
            values[:, dealt] = torch.from_numpy(part.values).reshape(size).to(values)
            if part.standard_errors is not None:
                errors[:, dealt] = torch.from_numpy(part.standard_errors).reshape(size).to(errors)
            # both ends of a pair were known
            spent = torch.full((pairs.rows,), part.evaluations)
            if part.row_evaluations is not None:
                spent = torch.from_numpy(part.row_evaluations)
            evaluations += (spent - 2).reshape(game.rows, -1).sum(dim=1)
            passes += part.derivative_passes * len(members)

        unbiased = "unbiased" in plans.resolved.method.promises
        averaged = average(
            values,
            errors,
            base.values[:, 0],
            plans.drawn,
            game.weights,
            unbiased,
            exhaustive=game.sampler is None,
            paired=plans.paired,
            designs=plans.designs,
        )
        return _Answer(*averaged, evaluations, passes)


@dataclass
class _Answer:
    """The Shapley values of some rows, averaged over background rows."""

    values: Tensor  #: (r, p, k)
    errors: Tensor | None  #: (r, p, k)
    degrees_of_freedom: float
    evaluations: Tensor  #: (r,)
    derivative_passes: int

    def converged(self, tol: float | None) -> Tensor:
        """Return which rows have standard errors within the tolerance, (r,)."""
        if tol is None or self.errors is None or self.degrees_of_freedom < MIN_DEGREES_OF_FREEDOM:
            return torch.zeros(len(self.values), dtype=torch.bool)
        return within(self.errors, self.degrees_of_freedom, tol).cpu()

    def know_null_players(self, active: Tensor) -> None:
        """Give players that are not active (r, p, 1) the value 0, which is known.

        What a correction for background rows has given them goes to the others.
        """
        theirs = torch.where(active, 0.0, self.values).sum(dim=1, keepdim=True)
        share = theirs / active.sum(dim=1, keepdim=True).clamp_min(1)
        self.values = torch.where(active, self.values + share, 0.0)
        if self.errors is not None:
            self.errors = torch.where(active, self.errors, 0.0)

    def replace_rows(self, rows: Tensor, later: "_Answer") -> None:
        """Take the values of a later round for some rows; what was spent adds up."""
        self.values[rows] = later.values
        if self.errors is None:  # so that no row has stopped: these are all
            self.errors = later.errors
            self.degrees_of_freedom = later.degrees_of_freedom
        elif later.errors is not None:
            self.errors[rows] = later.errors
        self.evaluations[rows] += later.evaluations
        self.derivative_passes += later.derivative_passes


def average(
    values: Tensor,
    errors: Tensor,
    base: Tensor,
    drawn: Tensor,
    weights: Tensor | None,
    unbiased: bool,
    *,
    exhaustive: bool = True,
    paired: bool = False,
    designs: int = 1,
) -> tuple[Tensor, Tensor | None, float]:
    """Return the mean of Shapley values over background rows, its errors, degrees of freedom.

    Parameters
    ----------
    values, errors
        (r, n, p, k) of each row with the background rows drawn; errors are infinite if unknown.
    base
        (b, k) the predictions for all background rows.
    drawn
        (n,) the numbers of those drawn.
    weights
        (b,) of the background rows, if they count differently; then all are drawn.
    unbiased
        Whether each pair's estimate is unbiased, so that their spread shows the error of the mean.
    exhaustive
        Whether the b background rows are the background, and not themselves draws of it.
    paired
        Whether one of those drawn depends on the next, so that only their means are independent.
    designs
        Among how many designs of coalitions they are divided, in turn.
    """
    count = len(drawn)
    part = count / len(base)
    known_part = part if exhaustive else 0.0
    share = values.new_full((count,), 1 / count)
    if weights is not None:
        share = weights[drawn].to(values)
    mean = torch.einsum("rnpk,n->rpk", values, share)
    independent = _pair_means(values, dim=1) if paired else values
    units = independent.shape[1]
    freedom = max(units - 1, 1)
    spread = (independent - mean[:, None]).square().sum(dim=1) / freedom
    spread = spread.clamp_min(MIN_SPREAD * spread.mean(dim=1, keepdim=True))
    if part < 1:
        own = base[drawn]
        centred = own - own.mean(dim=0)
        squares = centred.square().sum(dim=0)
        slope = mean.new_full(mean.shape, -1 / values.shape[2])
        if count >= MIN_REGRESSED:
            fitted = torch.einsum("rnpk,nk->rpk", values, centred) / squares
            slope = torch.where(squares > 0, fitted, slope)
        mean = mean + slope * (base.mean(dim=0) - own.mean(dim=0))

    of_draws = spread / units
    if known_part < 1:
        # draws that are all alike say nothing about the others
        alike = independent.amax(dim=1) - independent.amin(dim=1)
        rounding = ROUNDING * independent.abs().amax(dim=(1, 2))[:, None]  # of all players
        is_alike = (alike <= rounding).all(dim=1, keepdim=True)
        of_draws = torch.where(is_alike, inf, of_draws)
    if not exhaustive and 1 < designs < units:
        groups = torch.stack([independent[:, at::designs].mean(dim=1) for at in range(designs)])
        of_draws = torch.maximum(of_draws, groups.var(dim=0) / designs)
        freedom = designs - 1
    by_spread = None  #: the variance of the mean, if estimates are unbiased: any error adds to it
    if unbiased and count >= MIN_REGRESSED:
        by_spread = of_draws * share.square().sum() * count
    unknown = errors.isinf()
    if unknown.all():
        return (mean, None, inf) if by_spread is None else (mean, by_spread.sqrt(), freedom)
    known = torch.where(unknown, 0.0, errors)
    # a pair that showed one value only is as uncertain as the worst of the others
    worst = known.amax(dim=1, keepdim=True)
    squares = torch.where(unknown, worst, known).square()
    variance = torch.einsum("rnpk,n->rpk", squares, share.square())
    some_unknown = unknown.any(dim=1)
    # pairs with all their coalitions say nothing about the others
    variance = torch.where(some_unknown & (worst[:, 0] == 0), inf, variance)
    variance = variance + (1 - known_part) * of_draws
    if by_spread is not None:
        variance = torch.where(some_unknown, by_spread, variance)
        known_part = 0.0 if some_unknown.any() else known_part
    found = variance.sqrt() if count > 1 or known_part == 1 else None
    return mean, found, inf if known_part == 1 else freedom


def _pair_means(values: Tensor, dim: int) -> Tensor:
    """Return the means of the first and the second, the third and the fourth, and so on."""
    pairs = values.shape[dim] // 2
    means: Tensor = values.narrow(dim, 0, 2 * pairs).unflatten(dim, (pairs, 2)).mean(dim=dim + 1)
    return means
