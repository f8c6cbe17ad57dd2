"""Texts by their words: several texts have players that are places, and a word may be anywhere.

Two texts are explained together. A place is not the same word in both, and the shorter text has
players that it does not have, its padding:

    word 0   word 1    word 2   word 3
    so       lovely                        two words, and two players of padding
    the      acting    was      lovely

By word, `lovely` is one player. A word that a text lacks is padding of that text.
"""

import re
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from shearshap.result.explanation import Explanation, Floats

PLACE = re.compile(r"(word|token) \d+")  #: the name of a player that is a place in a text


def has_places(explanation: Explanation) -> bool:
    """Return whether players are places in texts, and not the words there."""
    if explanation.display_data is None or explanation.data is not None:
        return False
    return all(PLACE.fullmatch(name) for name in explanation.feature_names)


def padding(explanation: Explanation) -> NDArray[np.bool_]:
    """Return which players a row does not have, (r, p): those of texts that are longer."""
    if explanation.display_data is None or explanation.data is not None:
        return np.zeros(explanation.values.shape[:2], dtype=bool)
    return np.asarray(explanation.display_data == "", dtype=bool)


def text_of_row(explanation: Explanation, row: int) -> Explanation:
    """Return the explanation of one text, without padding; its players are named by their words."""
    one = explanation[row]
    assert one.display_data is not None, "places in texts have words"

    present = np.flatnonzero(~padding(one)[0])
    words = [str(word) for word in one.display_data[0, present]]
    errors = one.standard_errors
    pairs = one.interactions
    cross = one.cross_contribution
    return replace(
        one,
        values=one.values[:, present],
        standard_errors=None if errors is None else errors[:, present],
        interactions=None if pairs is None else pairs[:, present][:, :, present],
        cross_contribution=None if cross is None else cross[:, present][:, :, present],
        feature_names=words,
        display_data=None,
    )


def by_word(
    explanation: Explanation, most: int | None = None, *, pairs: bool = False
) -> Explanation:
    """Return the explanation of texts whose players are words, wherever they are in a text.

    The value of a word that is in a text several times is the sum of its values. Standard errors
    are added up as well: that holds even if the values err together.

    Parameters
    ----------
    explanation
        Of texts, whose players are places.
    most
        How many words to keep, those with the largest |values|; the values of the others are lost.
    pairs
        Whether to keep interactions and cross-contribution, which takes a number for each pair of
        words in each row.
    """
    words, owners = _owners(explanation, most)
    present = np.zeros((len(owners), len(words)), dtype=bool)
    rows, places = np.nonzero(owners >= 0)
    present[rows, owners[rows, places]] = True

    errors = explanation.standard_errors
    by_pair = _PairSums(owners, len(words))
    return replace(
        explanation,
        values=_sums(explanation.values, owners, len(words)),
        standard_errors=None if errors is None else _sums(errors, owners, len(words)),
        interactions=by_pair.interactions(explanation.interactions) if pairs else None,
        cross_contribution=by_pair.between(explanation.cross_contribution) if pairs else None,
        feature_names=words,
        display_data=np.where(present, np.array(words, dtype=object), ""),
    )


def _owners(explanation: Explanation, most: int | None) -> tuple[list[str], NDArray[np.int64]]:
    """Return the words to keep, and for each place the number of its word among them, (r, p).

    It is -1 for padding, and for other words. Words are in the order in which texts have them.
    """
    texts = explanation.display_data
    assert texts is not None, "places in texts have words"
    words, numbers = np.unique(texts.astype(str), return_inverse=True)
    numbers = numbers.reshape(texts.shape)
    present = ~padding(explanation)

    kept, first = np.unique(numbers[present], return_index=True)
    kept = kept[np.argsort(first)]
    if most is not None and len(kept) > most:
        weights = np.abs(explanation.values)[present]
        sizes = np.bincount(numbers[present], weights, minlength=len(words))
        large = np.argsort(-sizes[kept], kind="stable")[:most]
        kept = kept[np.sort(large)]

    place = np.full(len(words), -1)
    place[kept] = np.arange(len(kept))
    return words[kept].tolist(), np.where(present, place[numbers], -1)


def _sums(numbers: Floats, owners: NDArray[np.int64], words: int) -> Floats:
    """Return the sums of numbers (r, p) by word, (r, w)."""
    sums = np.zeros((len(numbers), words))
    rows, places = np.nonzero(owners >= 0)
    np.add.at(sums, (rows, owners[rows, places]), numbers[rows, places])
    return sums


@dataclass(frozen=True, eq=False)
class _PairSums:
    """Sums over pairs of places by pair of words."""

    owners: NDArray[np.int64]  #: (r, p)
    words: int

    def between(self, numbers: Floats | None) -> Floats | None:
        """Return the sums of pairs' numbers (r, p, p), (r, w, w); 0 within a word."""
        if numbers is None:
            return None
        return np.asarray(self._all(numbers) * (1 - np.eye(self.words)))

    def interactions(self, pairs: Floats | None) -> Floats | None:
        """Return interactions (r, p, p) by word, (r, w, w).

        The interaction of two places with the same word belongs to that word's main effect. It is
        in the matrix twice, and counts once.
        """
        if pairs is None:
            return None
        sums = self._all(pairs)
        own = np.arange(self.words)
        alone = _sums(np.einsum("rpp->rp", pairs), self.owners, self.words)
        sums[:, own, own] = (sums[:, own, own] + alone) / 2
        return sums

    def _all(self, numbers: Floats) -> Floats:
        sums = np.zeros((len(numbers), self.words, self.words))
        both = (self.owners[:, :, None] >= 0) & (self.owners[:, None, :] >= 0)
        rows, first, second = np.nonzero(both)
        words = (self.owners[rows, first], self.owners[rows, second])
        np.add.at(sums, (rows, *words), numbers[rows, first, second])
        return sums
