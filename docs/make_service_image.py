"""Make the picture of the service's page, docs/images/service.png, from a quickly trained network.

PYTHONPATH=tests python docs/make_service_image.py

It needs Chromium, and takes it from the tests' own `browser`.
"""

import base64
import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from make_gallery import write_census

import browser
from shearshap.apps.jobs import Job
from shearshap.apps.serve import Service

IMAGE = Path(__file__).resolve().parent / "images" / "service.png"
SIZE = {"width": 1040, "height": 1030, "deviceScaleFactor": 1, "mobile": False}

LOADED = "return document.getElementById('prediction').textContent !== '\\u2013'"
MOVED = "return document.getElementById('moved').textContent !== ''"
CHANGES = """
const change = (field, cell, event) => {
  field.value = cell;
  field.dispatchEvent(new Event(event));
};
document.getElementById("title").textContent = "census-network";
const of = (name, field) => document.querySelector(`[data-feature='${name}'] ${field}`);
change(of("age", "input[type=range]"), 60, "input");
change(of("marital-status", "select"), '"Never-married"', "change");
"""


def main() -> None:
    """Serve Census, change two cells of the first row, and write what the page shows."""
    torch.set_num_threads(1)  # the same weights on any number of cores
    with TemporaryDirectory() as name:
        os.chdir(name)  # as a user would run it, so that the page has no paths of this machine
        write_census(Path())
        job = Job(
            model="census-network",
            data=Path("people.csv"),
            out=Path("values.csv"),
            background="sample:train.csv",
        )
        with Service(job=job, port=0).running() as address:
            IMAGE.write_bytes(picture(address))


def picture(address: str) -> bytes:
    """Return the page of a service after changes, as a PNG."""
    with browser.chromium() as driver:
        browser.command(driver, "Emulation.setDeviceMetricsOverride", **SIZE)
        browser.command(driver, "Emulation.setScrollbarsHidden", hidden=True)
        driver.get(address)
        wait(driver, LOADED)
        driver.execute_script(CHANGES)
        wait(driver, MOVED)
        shot = browser.command(driver, "Page.captureScreenshot")
    return base64.b64decode(shot["data"])


def wait(driver: Any, script: str, seconds: float = 60) -> None:
    """Wait until a script is true, and another moment."""
    until = time.monotonic() + seconds
    while not driver.execute_script(script):
        assert time.monotonic() < until, script
        time.sleep(0.5)
    time.sleep(2)


if __name__ == "__main__":
    main()
