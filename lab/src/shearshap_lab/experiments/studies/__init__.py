"""The studies: each a function from a subject to records.

| study | the paper's |
| --- | --- |
| estimates | RQ1, RQ2 and the ablations of RQ4: four metrics of every row (Figures 2, 3 and 4 d) |
| timings | RQ3: seconds, with derivatives (Figures 4 a-c), and eq. (time) |
| cooperators | RQ4: a feature's error among chosen cooperators only (Figures 4 e and f) |
| pairs | Theorems 1 and 2: what one feature's value loses without another |
| selection_bound | Remark 2: the bound that selection minimises, and the error |
| illustration | one row, SHEAR beside the exact values (the appendix's figure) |
| models | the data sets and hyper-parameters as they are (the appendix's tables) |
"""
