"""What `python benchmarks/peers.py` measures, and how.

games.py        the games, which count their evaluations
peers.py        other libraries' estimators: a new one is a function and a line in PEERS
shapiq_peers.py those of shapiq: a new one is a line in SHAPIQ
answers.py      shapiq's estimators on tables in files, for leaderboard.py
ours.py         our methods, one row at a time and all rows together
measurement.py  one estimator on one game: error, seconds, coverage, evaluations
ranking.py      errors over that of the best peer
report.py       Markdown tables and the CSV file
chart.py        error against seconds
study.py        all of it
"""
