"""A contest of estimators on games whose Shapley values are known: `shear benchmark`.

contest         estimators, counted and timed, on every game -> records, kept as they are made
page            records -> ratios of errors with intervals, who is better, and a report of it
benchmark       the command
"""
