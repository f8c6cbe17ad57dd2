"""A contest of estimators on games whose Shapley values are known: `shear benchmark`.

games           complete tables of games, read from and written to .npz files
rules           games that need no model
sources         where games come from: rules, trees, the paper's networks
entrants        our methods, and whoever else takes part, each counted and timed
contest         every entrant on every game -> records, which are kept as they are made
standings       records -> ratios of errors with intervals, wins, ties and losses
contest_page    records -> an HTML report, and a leaderboard in Markdown
setting         what results depend on: code, versions, machine
benchmark       the command
"""
