"""Questions that one can ask of a game, beside the libraries that answer them too.

    python benchmarks/questions.py data             what are training rows worth?  beside pyDVL
    python benchmarks/questions.py indices          which features act together?   beside shapiq
    python benchmarks/questions.py importance       which features are needed?     beside sage
    python benchmarks/questions.py conditional      if features move together      beside shapiq
    python benchmarks/questions.py hierarchies      features in groups of groups   beside shap
    python benchmarks/questions.py data --help      the options of a question

Each question is a module of its own, question_*.py. Run with OMP_NUM_THREADS=1.
"""

import sys
from importlib import import_module

QUESTIONS = ("data", "indices", "importance", "conditional", "hierarchies")


def main() -> None:
    """Answer the question that is named on the command line."""
    if len(sys.argv) < 2 or sys.argv[1] not in QUESTIONS:
        sys.exit((__doc__ or "").strip())
    import_module(f"question_{sys.argv[1]}").main()


if __name__ == "__main__":
    main()
