"""Run the notebooks of the examples, keep what they show, and make a picture for the documentation.

python docs/make_notebook_image.py

It needs nbclient, ipykernel and Chromium, and takes them from the tests' own helpers.
"""

import base64
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
IMAGES = Path(__file__).parent / "images"
WIDTH = 960
SHOWN = (1, 3)  #: the code cells in the picture


def main() -> None:
    """Write the notebooks in examples/ with their outputs, and docs/images/notebook.png."""
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "docs")]
    import test_notebook as notebooks

    import browser

    for path in sorted(notebooks.EXAMPLES.glob("*.ipynb")):
        _keep_outputs(path)

    cells = notebooks.cells_of(notebooks.nbformat.read(notebooks.NOTEBOOK, as_version=4))
    shown = "<br>".join(notebooks.html_of(cells[place]) for place in SHOWN)
    with browser.chromium() as driver, TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        page.write_text(notebooks.PAGE.format(cells=shown), encoding="utf-8")
        browser.visit(driver, page, width=WIDTH)
        height = driver.execute_script("return document.body.getBoundingClientRect().height + 64")
        browser.visit(driver, page, width=WIDTH, height=int(height))
        picture = browser.command(driver, "Page.captureScreenshot", format="png")
    (IMAGES / "notebook.png").write_bytes(base64.b64decode(picture["data"]))


def _keep_outputs(path: Path) -> None:
    """Run a notebook and write it with its outputs, less what libraries log to stderr."""
    import test_notebook as notebooks

    notebook = notebooks.nbformat.read(path, as_version=4)
    with TemporaryDirectory() as folder:
        notebooks.executed(notebook, Path(folder))
        for cell in notebooks.cells_of(notebook):
            kept = [output for output in cell.outputs if output.get("name") != "stderr"]
            for output in kept:
                if "text" in output:  # the folder is gone
                    output["text"] = output["text"].replace(f"{folder}/", "")
            cell.outputs = kept
            cell.metadata.pop("execution", None)  # times, which differ from run to run
    notebooks.nbformat.write(notebook, path)


if __name__ == "__main__":
    main()
