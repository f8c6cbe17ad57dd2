"""Print the lowest versions that pyproject.toml names as constraints.

    python scripts/lowest.py > lowest.txt

torch is left out: its own lowest version has no wheel without CUDA in most registries.
"""

import re
import tomllib
from pathlib import Path

EXTRAS = ("plots", "endpoint", "explain", "serve", "trees", "all", "peers", "dev")


def main() -> None:
    """Print a line for each requirement with a lower bound."""
    text = (Path(__file__).parents[1] / "pyproject.toml").read_text()
    project = tomllib.loads(text)["project"]
    needed = project["dependencies"] + [
        requirement for extra in EXTRAS for requirement in project["optional-dependencies"][extra]
    ]
    for requirement in needed:
        found = re.fullmatch(r"([\w-]+)>=([\d.]+).*", requirement)
        if found and found[1] != "torch":
            print(f"{found[1]}=={found[2]}")


if __name__ == "__main__":
    main()
