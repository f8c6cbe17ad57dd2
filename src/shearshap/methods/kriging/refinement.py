"""From the answer of a shared kernel to that of a row's own, by conjugate gradients.

A centre's kernel K = L L' is factorised once, for all rows near it. In coordinates a with
alpha = B' a, where B K B' = I and B u = 0, the equations of a row with another kernel are

    (B K_row B') a = B o,

whose matrix is close to I: a few steps of conjugate gradients solve them. The row's kernel differs
from the centre's in the variances of some products of players, and in the size of all the rest:

    K_row - nugget = sum_T (v_T(row) - g v_T) u_T u_T' + g (K - nugget),
    g              = rest(row) / rest(centre).

So every product is one with a matrix that all rows share. The centre's weights W are exact for what
its own kernel explains. What K_row changes adds up to

    phi = W o + sum_T (phi_T - W u_T) (v_T(row) - g v_T) u_T' alpha
              + nugget (1 - g) (phi_white - W) alpha.

The error of phi is of second order in that of a, so that single precision is enough for a.

As P = B' B for the centre's kernel, the residuals of pairs that are left out follow from alpha too,
by the diagonal of the centre's P.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from shearshap.methods.kriging.kernels import chunk_entries, shapley_of_white
from shearshap.methods.kriging.left_out import LeftOut, white_weights
from shearshap.methods.kriging.odd_even import inner_pairs
from shearshap.methods.kriging.posterior import Factors
from shearshap.methods.kriging.products import Products

SINGLE = torch.float32
SMALLEST_REST = 1e-8  #: of a centre's kernel, below which it is nothing but rounding
CONVERGED = 1e-9  #: squared residual, relative to that of the beginning


class Refined(NamedTuple):
    """The answers of rows."""

    phi: Tensor  #: (r, p)
    squares: Tensor  #: (r, 1), o' P o
    surprise: Tensor  #: (r, 1), this and the rest are those of `LeftOut`
    rough_variance: Tensor  #: (r, p)
    unit_variance: Tensor  #: (r, p)


@dataclass(frozen=True)
class Refinement:
    """The matrices of one centre."""

    weights: Tensor  #: (m, p), W'
    basis: Tensor  #: (m, m - p), B'
    single_basis: Tensor  #: (m, m - p), the same in single precision
    diagonal: Tensor  #: (m,) of P
    inner: Tensor  #: (m,) of bool, the pairs that tell of surprises
    columns: Tensor  #: (m - p, f), B u_T
    white: Tensor  #: (m - p, m - p), B B'
    products_shapley: Tensor  #: (f, p), what is added for each product
    white_shapley: Tensor  #: (m - p, p), and for the nugget
    variances: Tensor  #: (f,), v_T
    rest: float  #: what the products leave of the centre's kernel
    nugget: float

    @classmethod
    def of(
        cls, u: Tensor, factors: Factors, products: Products, r: Tensor, nugget: float
    ) -> "Refinement":
        """Return the matrices of a centre at relevances r (p,), for pairs u (m, p)."""
        p = u.shape[1]

        # An orthonormal basis of what the trend leaves, and the weights, both before L^-T.
        complement = torch.linalg.qr(factors.trend[0], mode="complete")[0][:, p:]
        both = torch.cat([complement, white_weights(factors)[0]], 1)
        solved = torch.linalg.solve_triangular(factors.lower[0].mT, both, upper=True)
        basis, weights = solved.split([complement.shape[1], p], 1)

        variances = products.variances(r[None])[0]
        white_cross, _ = shapley_of_white(u)
        return cls(
            weights=weights,
            basis=basis,
            single_basis=basis.to(SINGLE),
            diagonal=basis.square().sum(1),
            inner=inner_pairs(u),
            columns=(basis.mT @ products.columns).to(SINGLE),
            white=(basis.mT @ basis).to(SINGLE),
            products_shapley=(products.shapley.mT - products.columns.mT @ weights).to(SINGLE),
            white_shapley=(basis.mT @ (white_cross.mT - weights)).to(SINGLE),
            variances=variances,
            rest=1 - float(variances.sum()),
            nugget=nugget,
        )

    def solve(self, odd: Tensor, variances: Tensor, steps: int) -> Refined:
        """Return the answers of odd parts (r, m), at variances v_T (r, f)."""
        entries = len(self.variances) + (4 + steps) * odd.shape[1]
        chunk_rows = max(1, 4 * chunk_entries(odd) // entries)
        chunks = zip(odd.split(chunk_rows), variances.split(chunk_rows), strict=True)
        solved = []
        for some_odd, some_variances in chunks:
            solved.append(self._solve(some_odd, some_variances, steps))
        return Refined(*(torch.cat(fields) for fields in zip(*solved, strict=True)))

    def _solve(self, odd: Tensor, variances: Tensor, steps: int) -> Refined:
        operator = self._row_operator(variances)
        whitened = odd @ self.basis
        size = whitened.abs().amax(1, keepdim=True).clamp_min(torch.finfo(odd.dtype).tiny)
        y = (whitened / size).to(SINGLE)
        a, left = conjugate_gradients(operator, y, steps)

        change = operator.product_coefficients(a) @ self.products_shapley
        change += operator.nugget * (a @ self.white_shapley)
        phi = odd @ self.weights + size * change
        # The last residual counts as the centre would have it.
        square = (y * a).sum(1, keepdim=True) + left

        alpha = size * (a @ self.single_basis.mT)
        without = LeftOut.of(alpha, self.diagonal, self.weights, self.inner)
        same = without.unit_variance.expand_as(without.variance)
        return Refined(phi, size.square() * square, without.surprise, without.variance, same)

    def _row_operator(self, variances: Tensor) -> "RowOperator":
        """Return the rows' matrices B K_row B' of their variances (r, f)."""
        ratio = torch.zeros_like(variances[:, :1])
        if self.rest > SMALLEST_REST:
            ratio = (1 - variances.sum(1, keepdim=True)).clamp_min(0) / self.rest
        own = variances - ratio * self.variances
        nugget = self.nugget * (1 - ratio)
        own = own.to(SINGLE)
        return RowOperator(
            self, own, ratio.to(SINGLE), nugget.to(SINGLE), coefficients=torch.empty_like(own)
        )


@dataclass(frozen=True)
class RowOperator:
    """The rows' matrices B K_row B', which are never made."""

    shared: Refinement
    variances: Tensor  #: (r, f), v_T(row) - g v_T
    ratio: Tensor  #: (r, 1), g
    nugget: Tensor  #: (r, 1), nugget (1 - g)
    coefficients: Tensor  #: (r, f), room for `product_coefficients`

    def product_coefficients(self, a: Tensor) -> Tensor:
        """Return the coefficients (r, f) of the products in the game that a (r, m - p) makes."""
        return torch.mm(a, self.shared.columns, out=self.coefficients).mul_(self.variances)

    def apply(self, a: Tensor, image: Tensor) -> Tensor:
        """Return each row's matrix times its vector, (r, m - p), in place of `image`."""
        torch.mm(a, self.shared.white, out=image)
        image.mul_(self.nugget).addcmul_(a, self.ratio)
        return image.addmm_(self.product_coefficients(a), self.shared.columns.mT)


def conjugate_gradients(matrix: RowOperator, y: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    """Return a with matrix a = y, (r, n), and the squared residuals left, (r, 1).

    Rows are solved side by side. One that has converged stays as it is, whatever the others do.

    In exact arithmetic all residuals are orthogonal. Rounding errors soon spoil that, and are then
    made so much larger, in double precision too, that a row's answer would depend on the rows
    beside it. So every residual is made orthogonal to those before.
    """
    a = torch.zeros_like(y)
    image = torch.empty_like(y)
    residual = y.clone()
    direction = y.clone()
    square = _dot(residual, residual)
    small = CONVERGED * square
    units: list[Tensor] = []  # the residuals so far, at unit length
    for _ in range(steps):
        going = square > small
        if not going.any():
            break
        units.append(residual * torch.where(going, square.rsqrt(), 0.0))
        matrix.apply(direction, image)
        curvature = _dot(direction, image)
        step = torch.where(going & (curvature > 0), square / curvature, 0.0)
        a.addcmul_(direction, step)
        residual.addcmul_(image, step, value=-1)
        for unit in units:
            residual.addcmul_(unit, _dot(residual, unit), value=-1)

        before = square
        square = _dot(residual, residual)
        direction.mul_(torch.where(going, square / before, 0.0)).add_(residual)
    return a, square


def _dot(a: Tensor, b: Tensor) -> Tensor:
    """Return the rows' inner products of a and b (r, n), (r, 1)."""
    product: Tensor = torch.linalg.vecdot(a, b)
    return product[:, None]
