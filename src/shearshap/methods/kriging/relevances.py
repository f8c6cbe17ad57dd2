"""The rule by which a row's relevances follow from its own values; see `Calibration`."""

import torch
from torch import Tensor

from shearshap.methods.kriging.kernels import chunk_entries
from shearshap.methods.kriging.odd_even import OddEven, evenly_spaced
from shearshap.result.calibration import Calibration

RIDGE = 0.03  #: of the even part's pairwise regression, relative to its kernel's diagonal
MOST_OUTPUTS = 32  #: of a row, whose mean features make its relevances
STRENGTH_PAIRS = 1000  #: pairs that this regression sees at most
LARGEST_RELEVANCE = 0.95  #: at 1 the kernels would be singular
LARGEST_LOGIT = 9.0  #: bound on the absolute value of a relevance's logit


def relevances(parts: OddEven, calibration: Calibration) -> Tensor:
    """Return each row's relevances, (r, p), strictly between 0 and LARGEST_RELEVANCE."""
    return relevances_at(relevance_features(parts), calibration)


def relevances_at(features: Tensor, calibration: Calibration) -> Tensor:
    """Return each row's relevances, (r, p), from its features (r, p, 4)."""
    coefficients = [
        calibration.level,
        calibration.linear,
        calibration.pairwise,
        calibration.ratio,
    ]
    return relevances_of_features(
        features,
        features.new_tensor(coefficients),
        features.new_tensor(calibration.players),
    )


def relevances_of_features(features: Tensor, coefficients: Tensor, players: Tensor) -> Tensor:
    """Return relevances (r, p) of features (r, p, 4), coefficients (4,) and player terms (p,)."""
    return _relevances_of_logits(features @ coefficients + players)


def slopes_of_relevances(relevance: Tensor) -> Tensor:
    """Return the derivatives of relevances (r, p) in their logits, (r, p)."""
    inside = logits(relevance).abs() < LARGEST_LOGIT - 1e-9
    return relevance * (1 - relevance / LARGEST_RELEVANCE) * inside


def logits(relevance: Tensor) -> Tensor:
    """Return the logits of relevances (r, p)."""
    return torch.logit(relevance / LARGEST_RELEVANCE)


def mean_relevances(relevance: Tensor) -> Tensor:
    """Return the relevances whose logits are the means of those of rows (r, p), (p,)."""
    return _relevances_of_logits(logits(relevance).mean(0))


def shifted(relevance: Tensor, shift: Tensor) -> Tensor:
    """Return relevances (r, p) whose logits are larger by `shift`."""
    return _relevances_of_logits(logits(relevance) + shift)


def _relevances_of_logits(logit: Tensor) -> Tensor:
    return LARGEST_RELEVANCE * torch.sigmoid(logit.clamp(-LARGEST_LOGIT, LARGEST_LOGIT))


def relevance_features(parts: OddEven) -> Tensor:
    """Return the features 1, log c^2, log q and log(mean q / mean c^2), (r, p, 4).

    They are means over a row's outputs, or some of them where there are many. Outputs differ little
    in their relevances: one kernel for all of them had the same errors as one for each.
    """
    parts = parts.take_outputs(evenly_spaced(parts.outputs, MOST_OUTPUTS))
    linear = (parts.odd @ linear_operator(parts.signs)).square()
    pairwise = pairwise_strengths(parts.take(pairs=slice(STRENGTH_PAIRS)))

    tiny = torch.finfo(linear.dtype).tiny
    log_ratio = torch.log((pairwise.mean(1) + tiny) / (linear.mean(1) + tiny))
    # Bounded, because additive games have no pairwise part at all, and roughly centred at 0.
    ratio = log_ratio.clamp(-12, 4) + 3

    features = [
        torch.ones_like(linear),
        _centred_log(linear),
        _centred_log(pairwise),
        ratio[:, None].expand_as(linear),
    ]
    of_games = torch.stack(features, 2)
    if parts.outputs == 1:
        return of_games
    return of_games.reshape(parts.rows, parts.outputs, -1, 4).mean(1)


def linear_operator(u: Tensor) -> Tensor:
    """Return u (u'u)^-1, (m, p), which makes linear coefficients of an odd part."""
    coefficients: Tensor = torch.linalg.solve(u.mT @ u, u.mT)
    return coefficients.mT


def _centred_log(x: Tensor) -> Tensor:
    """Return log x minus its mean over players, (r, p).

    A small part of the mean is added to x, so that a null player's zero stays finite.
    """
    floor = 1e-3 * x.mean(1, keepdim=True)
    log = torch.log(x + floor + torch.finfo(x.dtype).tiny)
    return log - log.mean(1, keepdim=True)


def pairwise_strengths(parts: OddEven) -> Tensor:
    """Return q_j, (r, p), of a ridge regression of the even part on all products u_i u_j.

    q_j is the sum of the squared coefficients of the pairs {i, j} over i. As

        sum_{i<j} u_i u_j u'_i u'_j = ((u . u')^2 - p) / 2,

    the regression needs none of the products themselves.
    """
    u = parts.signs
    m, p = u.shape
    products = p * (p - 1) / 2
    eye = torch.eye(m, dtype=u.dtype, device=u.device)

    # The regression's constant is removed from both sides.
    centre = eye - 1 / m
    gram = centre @ ((u @ u.mT).square() - p) @ centre / (2 * products)
    even = parts.even - parts.even.mean(1, keepdim=True)
    lower = torch.linalg.cholesky(gram + RIDGE * eye)
    dual = torch.cholesky_solve(even.mT, lower).mT / products

    chunk_rows = max(1, chunk_entries(u) // (max(m, p) * p))
    strengths = [
        _squares_by_player((chunk[:, None] * u.mT) @ u)  # the coefficients (r, p, p)
        for chunk in dual.split(chunk_rows)
    ]
    return torch.cat(strengths)


def _squares_by_player(coefficients: Tensor) -> Tensor:
    """Return the sum of squares of each player's pairs, (r, p), of symmetric matrices (r, p, p)."""
    squares = coefficients.tril(-1).square()
    return squares.sum(1) + squares.sum(2)
