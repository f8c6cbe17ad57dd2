"""Make the picture of the service's page, docs/images/service.png, from a quickly trained network.

PYTHONPATH=tests python docs/make_service_image.py

It needs Chromium, and takes it from the tests' own `browser`.
"""

import base64
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

import browser
from shearshap.jobs import Job
from shearshap.serve import Service
from shearshap_lab import data, networks

IMAGE = Path(__file__).parent / "images" / "service.png"
SIZE = {"width": 1280, "height": 960, "deviceScaleFactor": 1, "mobile": False}

CHANGES = """
const change = (field, cell, event) => {
  field.value = cell;
  field.dispatchEvent(new Event(event));
};
document.getElementById("title").textContent = "census-network";
const of = (name, field) => document.querySelector(`[data-feature='${name}'] ${field}`);
change(of("age", "input[type=range]"), 60, "input");
change(of("marital-status", "select"), '"Married-civ-spouse"', "change");
"""


def main() -> None:
    """Serve Census, change two cells of the first row, and write what the page shows."""
    torch.set_num_threads(1)  # the same weights on any number of cores
    census = data.load("census")
    with TemporaryDirectory() as name:
        folder = Path(name)
        networks.save(networks.train(census, steps=1_000, seed=0), folder / "census-network")
        census.write(folder / "census.csv")
        job = Job(
            model=str(folder / "census-network"),
            data=folder / "census.csv",
            out=folder / "values.csv",
            budget=64,
        )
        with Service(job=job, port=0).running() as address:
            IMAGE.write_bytes(picture(address))


def picture(address: str) -> bytes:
    """Return the page of a service after changes, as a PNG."""
    with browser.chromium() as driver:
        browser.command(driver, "Emulation.setDeviceMetricsOverride", **SIZE)
        driver.get(address)
        time.sleep(3)
        driver.execute_script(CHANGES)
        time.sleep(3)
        shot = browser.command(driver, "Page.captureScreenshot")
    return base64.b64decode(shot["data"])


if __name__ == "__main__":
    main()
