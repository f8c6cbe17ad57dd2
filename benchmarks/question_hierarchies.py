"""Questions that one can ask of a game, measured beside other libraries.

python benchmarks/questions.py hierarchies
"""

import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setting import Tables, machine, parser_of
from shearshap import Explainer

Floats = NDArray[np.float64]

CHOSEN_ON = 10
"""Rows of each case of `hierarchies` by which the constants of coarse to fine were chosen."""


# Hierarchies: coarse to fine, beside shap's Partition explainer


@dataclass(frozen=True)
class Clustered:
    """A model, rows to explain, one background row, and a binary tree over the columns."""

    model: Callable[[Floats], Floats]
    rows: Floats
    background: Floats
    linkage: Floats


def hierarchies(rows: int, csv: Path | None) -> None:
    """Print the errors of Winter values at p/4 to 4p evaluations.

    An error is mean |error| / mean |value| ± half of its 95 % interval over rows.
    """
    tables = Tables(f"{rows} rows; {machine()}", csv)
    columns = ["games", "evaluations", "method", "error ±", "intervals that hold %", "spent"]
    cases = {"texts": _texts(rows), "images": _images(rows), "a table": _table(rows)}
    for name, parts in cases.items():
        players = len(parts[0].background)
        exact = [_explained(part, "exact", 1 << 22) for part in parts]
        truth = np.concatenate([each.values for each in exact])
        lines = []
        for part_of_p, budget in {
            "p/4": players // 4,
            "p/2": players // 2,
            "p": players,
            "2p": 2 * players,
            "4p": 4 * players,
        }.items():
            for method in ("coarse-to-fine", "permutation-antithetic"):
                if method == "permutation-antithetic" and budget < 2 * players:
                    continue
                answers = [_explained(part, method, budget) for part in parts]
                values = np.concatenate([each.values for each in answers])
                held = _covered(answers, truth)
                lines.append([name, part_of_p, method, _error(values, truth), held, str(budget)])
            theirs = [_partition(part, budget) for part in parts]
            values = np.concatenate([each[0] for each in theirs])
            spent = np.mean([each[1] for each in theirs])
            error = _error(values, truth)
            lines.append([name, part_of_p, "shap Partition", error, "", f"{spent:.0f}"])
        tables.show("question-hierarchies", columns, lines)


def _explained(part: Clustered, method: str, budget: int) -> Any:
    explainer = Explainer(part.model, part.background, groups=part.linkage, method=method)
    return explainer(part.rows, budget=budget, progress=False)


def _error(values: Floats, truth: Floats) -> str:
    each = np.abs(values - truth).mean(axis=1) / np.abs(truth).mean()
    return f"{each.mean():.3f} ± {1.96 * each.std(ddof=1) / len(each) ** 0.5:.3f}"


def _covered(answers: list[Any], truth: Floats) -> str:
    """Return which part of the values is in the 95 % intervals; "" without intervals."""
    if any(answer.standard_errors is None for answer in answers):
        return ""
    intervals = [answer.interval() for answer in answers]
    lower, upper = (np.concatenate(ends) for ends in zip(*intervals, strict=True))
    inside = (lower - 1e-9 <= truth) & (truth <= upper + 1e-9)
    return f"{inside.mean():.0%}"


def _partition(part: Clustered, budget: int) -> tuple[Floats, float]:
    """Return the values of shap's Partition explainer, and the evaluations of a row."""
    import shap

    spent = 0

    def counted(inputs: Floats) -> Floats:
        nonlocal spent
        spent += len(inputs)
        return part.model(inputs)

    masker = shap.maskers.Partition(part.background[None], clustering=part.linkage)
    explainer = shap.explainers.Partition(counted, masker)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answer = explainer(part.rows, max_evals=budget, silent=True, batch_size=2)
    return answer.values, spent / len(part.rows)


def _texts(rows: int) -> list[Clustered]:
    """Documentation of NumPy or of SciPy? By its first 64 words, which are there or not.

    In a text's tree, words are halved again and again within sentences, and sentences likewise.
    """
    import scipy.signal
    import scipy.special
    import scipy.stats
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.svm import SVC

    def documented(*modules: Any) -> list[str]:
        found = [inspect.getdoc(each) or "" for one in modules for each in vars(one).values()]
        return sorted({" ".join(text.split()[:64]) for text in found if len(text.split()) >= 64})

    texts = documented(np, np.linalg, np.random)
    count = len(texts)
    texts += documented(scipy.stats, scipy.special, scipy.signal)
    labels = np.arange(len(texts)) >= count
    order = np.random.default_rng(0).permutation(len(texts))
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), min_df=2)
    last = CHOSEN_ON + rows
    trained = vectorizer.fit_transform([texts[at] for at in order[last:]])
    classifier = SVC(C=10.0).fit(trained, labels[order[last:]])
    parts = []
    for at in order[CHOSEN_ON:last]:
        words = np.array(texts[at].split())

        def margin(present: Floats, words: NDArray[np.str_] = words) -> Floats:
            shown = [" ".join(words[line > 0.5]) for line in present]
            return np.asarray(classifier.decision_function(vectorizer.transform(shown)))

        ends = np.flatnonzero([word.endswith(".") for word in words]) + 1
        sentences = np.split(np.arange(64), ends[ends < 64])
        tree = _halved([_halved(sentence.tolist()) for sentence in sentences])
        parts.append(Clustered(margin, np.ones((1, 64)), np.zeros(64), _linkage(tree, 64)))
    return parts


def _images(rows: int) -> list[Clustered]:
    """Handwritten digits, 8 x 8 pixels, halved again and again, by a network."""
    from sklearn.datasets import load_digits
    from sklearn.neural_network import MLPClassifier

    pixels, digits = load_digits(return_X_y=True)
    last = CHOSEN_ON + rows
    network = MLPClassifier((64, 32), max_iter=300, random_state=0).fit(
        pixels[last:], digits[last:]
    )

    def of_eight(inputs: Floats) -> Floats:
        return np.asarray(network.predict_proba(inputs)[:, 8])

    def halved(block: NDArray[np.int64]) -> Any:
        if block.size == 1:
            return int(block[0, 0])
        longer = int(block.shape[1] >= block.shape[0])
        return tuple(halved(half) for half in np.split(block, 2, axis=longer))

    tree = _linkage(halved(np.arange(64).reshape(8, 8)), 64)
    return [Clustered(of_eight, pixels[CHOSEN_ON:last], pixels[last:].mean(axis=0), tree)]


def _table(rows: int) -> list[Clustered]:
    """Breast cancer from 30 columns, clustered by their correlations, by a network."""
    from scipy.cluster.hierarchy import linkage
    from scipy.spatial.distance import squareform
    from sklearn.datasets import load_breast_cancer
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    columns, labels = load_breast_cancer(return_X_y=True)
    last = CHOSEN_ON + rows
    network = make_pipeline(StandardScaler(), MLPClassifier((32, 32), max_iter=500, random_state=0))
    network.fit(columns[last:], labels[last:])

    def margin(inputs: Floats) -> Floats:
        chance = network.predict_proba(inputs)[:, 1].clip(1e-9, 1 - 1e-9)
        return np.asarray(np.log(chance / (1 - chance)))

    apart = 1 - np.abs(np.corrcoef(columns, rowvar=False))
    tree = linkage(squareform(apart, checks=False), "complete")
    return [Clustered(margin, columns[CHOSEN_ON:last], columns[last:].mean(axis=0), tree)]


def _halved(members: list[Any]) -> Any:
    """Return members as pairs of pairs of ... members."""
    if len(members) == 1:
        return members[0]
    half = len(members) // 2
    return (_halved(members[:half]), _halved(members[half:]))


def _linkage(tree: Any, count: int) -> Floats:
    """Return nested pairs of columns as a linkage matrix (d - 1, 4)."""
    lines: list[list[float]] = []

    def add(node: Any) -> tuple[int, int]:
        if not isinstance(node, tuple):
            return node, 1
        (left, first), (right, second) = add(node[0]), add(node[1])
        lines.append([left, right, first + second, first + second])
        return count + len(lines) - 1, first + second

    add(tree)
    return np.array(lines, dtype=np.float64)


def main() -> None:
    """Answer the question."""
    parser = parser_of(__doc__)
    parser.add_argument("question", help="as named on the command line of questions.py")
    parser.add_argument("--rows", type=int, default=20)
    options = parser.parse_args()
    hierarchies(options.rows, options.csv)


if __name__ == "__main__":
    main()
