"""What `shear paper reproduce` prints of made-up records."""

import pytest

from paper_oracles import slow_mean
from paper_records import AUTHORS, BOTH, CENSUS, FAIR, PAPER, only, without
from shearshap_lab.experiments.printed import printed
from shearshap_lab.experiments.spec import PROTOCOLS
from shearshap_lab.experiments.style import label_of


def test_what_is_printed() -> None:
    text = printed(BOTH)
    census, ours, german = text.split("\n\n")
    assert census.startswith(
        "census, the authors' networks: The census data\n"
        "networks  3, with test accuracy 85.1% 84.7% 84.9%\ntruth     exact, 4 rows"
    )
    assert ours.startswith("census, our networks: The census data")
    assert german.startswith("german, our networks: The german data")
    lines = census.splitlines()
    assert "row 7, explained by SHEAR in 210 evaluations (exact values beside it)" in lines
    features = [line.split()[0] for line in lines if line.startswith("  ")]
    assert features == ["base", "gain", "relationship", "age", "race", "sex", "prediction,"]
    assert (
        f"  {'relationship':<16}{'Not-in-family, or so':<22}{'-1.2600':>9}{'-1.2500':>11}" in lines
    )
    for protocol, methods in PROTOCOLS.items():
        error = {
            name: slow_mean(
                CENSUS["estimates"], "absolute_error", method=name, n=16, recipe="authors"
            )
            for name in methods
        }
        ordered = ", ".join(
            f"{label_of(name)} {error[name]:.2g}" for name in sorted(methods, key=error.__getitem__)
        )
        assert f"{protocol:<10} absolute error at N = 16: {ordered}" in lines


def test_a_row_that_is_not_there_is_not_printed() -> None:
    assert "explained by SHEAR" not in printed(without(CENSUS, "illustration", "bounds"))


@pytest.mark.parametrize(
    ("methods", "absent"), [(FAIR, ("paper", "authors")), ([*PAPER, *AUTHORS], ("fair",))]
)
def test_only_protocols_that_were_run_are_printed(
    methods: list[str], absent: tuple[str, ...]
) -> None:
    lines = printed(only(CENSUS, *methods)).splitlines()
    assert not [line for line in lines if line.startswith(absent)]
    assert [line for line in lines if "absolute error at N = 16" in line]
