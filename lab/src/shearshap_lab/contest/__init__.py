"""A contest of estimators on games whose Shapley values are known: `shear benchmark`.

estimators      our methods, and whoever else takes part, each counted and timed
contest         every estimator on every game -> records, which are kept as they are made
ranking         records -> ratios of errors with intervals, and who is better
page            records -> an HTML report, and a leaderboard in Markdown
benchmark       the command
"""
