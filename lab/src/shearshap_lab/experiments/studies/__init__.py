"""The studies: each a function from a subject to records.

| study | the paper's |
| --- | --- |
| estimates | RQ1, RQ2 and the ablations of RQ4: four metrics of every row (Figures 2, 3 and 4 d) |
| timings | RQ3: seconds, with derivatives (Figures 4 a-c), and eq. (time) |
| cooperators | RQ4: a feature's error among chosen cooperators only (Figures 4 e and f) |
| chain | Theorem 1: what one feature's value loses without another, and what the chain rule says |
| bounds | how tight Theorem 2 is: the same loss, and its bounds |
| selection_bound | Remark 2: the bound that selection minimises, and the error |
| sensitivity | how errors depend on encoding, epochs, background and activation |
| illustration | one row, SHEAR beside the exact values (the appendix's figure) |
| models | the data sets and hyper-parameters as they are (the appendix's tables) |
"""

from shearshap_lab.experiments.studies.cooperator_sets import DRAWS, cooperators
from shearshap_lab.experiments.studies.one_row import illustration
from shearshap_lab.experiments.studies.pair_theory import bounds, chain, selection_bound
from shearshap_lab.experiments.studies.row_estimates import TRUTH, estimates, score_truth
from shearshap_lab.experiments.studies.setting_facts import describe
from shearshap_lab.experiments.studies.timed_methods import (
    BATCH,
    DERIVATIVES,
    FORWARD,
    ONE_BY_ONE,
    WAYS,
    timings,
)
from shearshap_lab.experiments.studies.training_choices import sensitivity

__all__ = [
    "BATCH",
    "DERIVATIVES",
    "DRAWS",
    "FORWARD",
    "ONE_BY_ONE",
    "TRUTH",
    "WAYS",
    "bounds",
    "chain",
    "cooperators",
    "describe",
    "estimates",
    "illustration",
    "score_truth",
    "selection_bound",
    "sensitivity",
    "timings",
]
