"""How the time grows with rows and with the budget, on the Census-like network.

python benchmarks/scaling.py
"""

from setting import GROUPS, PLAYERS, census_like, machine, seconds
from shearshap import explain
from shearshap_lab.markdown import plain_table

METHODS = ("leverage", "permutation-antithetic", "shear", "kriging")
ROWS = (250, 500, 1000, 2000, 4000)
EVALUATIONS = (8, 16, 32, 64, 128)


def microseconds(method: str, rows: int, each: int) -> str:
    """Return the time of one evaluation of one row, everything included."""
    net, inputs, background = census_like()
    budget = each * PLAYERS + 2

    def run() -> object:
        return explain(
            net,
            inputs[:rows],
            reference=background,
            budget=budget,
            groups=GROUPS,
            output=1,
            method=method,
        )

    return f"{seconds(run, repeats=3) / rows / budget * 1e6:.2f}"


def main() -> None:
    print(
        f"Microseconds for each evaluation of each row: level where cost is linear. {machine()}\n"
    )
    print("Rows, at 16 evaluations a player:\n")
    by_rows = [[name, *(microseconds(name, rows, 16) for rows in ROWS)] for name in METHODS]
    print(plain_table(["", *map(str, ROWS)], by_rows))

    print("\nEvaluations a player, at 1000 rows:\n")
    by_budget = [
        [name, *(microseconds(name, 1000, each) for each in EVALUATIONS)] for name in METHODS
    ]
    print(plain_table(["", *map(str, EVALUATIONS)], by_budget))


if __name__ == "__main__":
    main()
