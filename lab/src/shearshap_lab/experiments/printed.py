"""What `shear paper reproduce` prints: the most important numbers of the records."""

from shearshap_lab.experiments.records import Records, column, where
from shearshap_lab.experiments.spec import ABLATED
from shearshap_lab.experiments.style import label_of
from shearshap_lab.experiments.summaries import (
    Networks,
    curve,
    every_network,
    illustrated,
    protocols_of,
)


def printed(records: Records) -> str:
    """Return the networks, one explained row and the errors at N = 16, as text."""
    return "\n\n".join(_networks(networks) for networks in every_network(records))


def _networks(networks: Networks) -> str:
    records = networks.records
    return "\n".join([*_facts(networks), *_row(records), *_errors(records)])


def _facts(networks: Networks) -> list[str]:
    models = networks.records["models"]
    first = models.to_pylist()[0]
    accuracies = " ".join(f"{100 * accuracy:.1f}%" for accuracy in column(models, "accuracy"))
    return [
        f"{networks.title}: {first['title']}",
        f"networks  {len(models)}, with test accuracy {accuracies}",
        f"truth     {first['truth']}, {first['rows']} rows, {first['truth_evaluations']} "
        "evaluations each",
    ]


def _row(records: Records) -> list[str]:
    """Return the illustrated row of the first network, the largest values first."""
    features = illustrated(records["illustration"])
    if not features:
        return []

    first = features[0]
    lines = [
        f"row {first['row']}, explained by SHEAR in {first['evaluations']} evaluations (exact "
        "values beside it)",
        f"  {'base value':<38}{first['base_value']:+9.4f}",
    ]
    for each in sorted(features, key=lambda feature: -abs(feature["exact"])):
        feature = f"{each['feature']:<16}{each['value']:<22.21}"
        lines.append(f"  {feature}{each['shear']:+9.4f}{each['exact']:+11.4f}")
    lines.append(f"  {'prediction, f1 - f0':<38}{first['prediction']:+9.4f}")
    return lines


def _errors(records: Records) -> list[str]:
    """Return the methods of each protocol in the order of their errors, the smallest first."""
    estimates = where(records["estimates"], n=ABLATED)
    lines = []
    for protocol, methods in protocols_of(estimates).items():
        errors = {
            method: curve(where(estimates, method=method), "absolute_error").mean[0]
            for method in methods
        }
        ordered = sorted(methods, key=errors.__getitem__)
        ranking = ", ".join(f"{label_of(method)} {errors[method]:.2g}" for method in ordered)
        lines.append(f"{protocol:<10} absolute error at N = {ABLATED}: {ranking}")
    return lines
