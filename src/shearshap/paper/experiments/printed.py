"""What `shear reproduce` prints: a few lines of the records."""

from shearshap.paper.experiments.records import Records, column, where
from shearshap.paper.experiments.spec import ABLATED
from shearshap.paper.experiments.style import look
from shearshap.paper.experiments.summaries import by_dataset, curve, illustrated, protocols_of


def printed(records: Records) -> str:
    """Return each data set's networks, one explained row and the errors at N = 16, as text."""
    return "\n\n".join(_dataset(name, own) for name, own in by_dataset(records).items())


def _dataset(name: str, own: Records) -> str:
    first = own["models"].to_pylist()[0]
    accuracy = " ".join(f"{100 * one:.1f}%" for one in column(own["models"], "accuracy"))
    lines = [
        f"{name}: {first['title']}",
        f"networks  {len(own['models'])}, of test accuracy {accuracy}",
        f"truth     {first['truth']}, {first['rows']} rows, {first['truth_evaluations']} "
        "evaluations each",
    ]
    return "\n".join((*lines, *_row(own), *_errors(own)))


def _row(own: Records) -> list[str]:
    """Return the illustrated row of the first network, the largest shares first."""
    rows = illustrated(own["illustration"])
    if not rows:
        return []
    first = rows[0]
    ordered = sorted(rows, key=lambda row: -abs(row["exact"]))
    return [
        f"row {first['row']}, explained by SHEAR in {first['evaluations']} evaluations (exact "
        "values beside it)",
        f"  {'base value':<38}{first['base_value']:+9.4f}",
        *(
            f"  {row['feature']:<16}{row['value']:<22.21}{row['shear']:+9.4f}{row['exact']:+11.4f}"
            for row in ordered
        ),
        f"  {'prediction, f1 - f0':<38}{first['prediction']:+9.4f}",
    ]


def _errors(own: Records) -> list[str]:
    estimates = where(own["estimates"], n=ABLATED)
    lines = []
    for protocol, methods in protocols_of(estimates).items():
        error = {
            method: curve(where(estimates, method=method), "absolute_error").mean[0]
            for method in methods
        }
        ordered = sorted(methods, key=error.__getitem__)
        each = ", ".join(f"{look(method).label} {error[method]:.2g}" for method in ordered)
        lines.append(f"{protocol:<9} absolute error at N = {ABLATED}: {each}")
    return lines
