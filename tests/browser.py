"""A real browser for tests of HTML: headless Chromium, what it fetched and logged, and whether figures can be read."""

import base64
import importlib.util
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",  # Chromium refuses to run as root with one
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

OVERLAPPING_TEXT = """
const shrunk = element => {
  const box = element.getBoundingClientRect();
  return {left: box.left + 1, right: box.right - 1, top: box.top + 1, bottom: box.bottom - 1};
};
const crosses = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
const within = (a, b) => a.left >= b.left && a.right <= b.right && a.top >= b.top && a.bottom <= b.bottom;
const unreadable = [];
for (const svg of document.querySelectorAll("svg")) {
  const name = svg.getAttribute("aria-label") || "";
  const frame = svg.getBoundingClientRect();
  const texts = [...svg.querySelectorAll("text")]
    .map(element => ({text: element.textContent.trim(), box: shrunk(element)}))
    .filter(({text, box}) => text && box.left < box.right && box.top < box.bottom);
  texts.forEach((first, i) => {
    if (!within(first.box, frame)) unreadable.push(`${name}: ${first.text} sticks out`);
    for (const other of texts.slice(i + 1)) {
      if (crosses(first.box, other.box)) unreadable.push(`${name}: ${first.text} overlaps ${other.text}`);
    }
  });
}
return unreadable;
"""


def browsing(test: Any) -> Any:
    """Mark a test that drives the one browser of all workers."""
    return pytest.mark.browser(pytest.mark.slow(pytest.mark.xdist_group("browser")(test)))


@contextmanager
def chromium() -> Iterator["Chrome"]:
    """Yield a fresh headless Chromium; skip the test where there is none, or fail if SHEARSHAP_REQUIRE_BROWSER is set.

    The fixture `driver` is one for all tests.
    """
    binary, service = _installed()
    from selenium import webdriver

    with TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = binary
        for argument in (*ARGUMENTS, f"--user-data-dir={profile}"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        driver = webdriver.Chrome(
            options=options, service=webdriver.ChromeService(executable_path=service)
        )
        try:
            yield driver
        finally:
            driver.quit()


def _installed() -> tuple[str, str]:
    """Return the programs chromium and chromedriver."""
    binary = shutil.which("chromium") or shutil.which("google-chrome")
    service = shutil.which("chromedriver")
    selenium = importlib.util.find_spec("selenium")
    if binary and service and selenium:
        return binary, service
    needed = {"chromium": binary, "chromedriver": service, "selenium": selenium}
    reason = (
        f"needs a browser: no {', no '.join(name for name, there in needed.items() if not there)}"
    )
    if os.environ.get("SHEARSHAP_REQUIRE_BROWSER"):
        pytest.fail(reason)
    pytest.skip(reason)


def visit(driver: "Chrome", path: Path, *, width: int, height: int = 800) -> None:
    """Open a file in a window of that many CSS pixels, forgetting what was logged before."""
    resize(driver, width=width, height=height)
    driver.get("about:blank")
    _logged(driver, "browser")
    _logged(driver, "performance")
    driver.get(path.as_uri())


def resize(driver: "Chrome", *, width: int, height: int = 800) -> None:
    """Make the window that many CSS pixels wide and high."""
    command(
        driver,
        "Emulation.setDeviceMetricsOverride",
        width=width,
        height=height,
        deviceScaleFactor=1,
        mobile=False,
    )


def command(driver: "Chrome", name: str, **parameters: Any) -> dict[str, Any]:
    """Send a command of the Chrome DevTools Protocol and return its answer."""
    answer: dict[str, Any] = driver.execute_cdp_cmd(name, parameters)
    return answer


def _logged(driver: "Chrome", log: str) -> list[dict[str, Any]]:
    """Return what a log has got since it was last asked for."""
    entries: list[dict[str, Any]] = driver.get_log(log)  # type: ignore[no-untyped-call]
    return entries


def console(driver: "Chrome") -> list[str]:
    """Return what the page's console was told since `visit`, errors and warnings too."""
    return [entry["message"] for entry in _logged(driver, "browser")]


def requests(driver: "Chrome") -> list[str]:
    """Return the addresses that were asked for since `visit`, as the network saw them."""
    events = [json.loads(entry["message"])["message"] for entry in _logged(driver, "performance")]
    return [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    ]


def printed(driver: "Chrome") -> bytes:
    """Return the page printed on A4, as its style sheet asks, as a PDF."""
    from selenium.common.exceptions import WebDriverException

    for attempt in range(3):
        try:
            page = command(driver, "Page.printToPDF", preferCSSPageSize=True, printBackground=False)
            break
        except WebDriverException:
            # on a busy machine Chromium now and then says that printing failed
            if attempt == 2:
                raise
    return base64.b64decode(page["data"])


def overlapping_text(driver: "Chrome") -> list[str]:
    """Return the texts in figures that nobody can read: one line for each pair that overlaps and each that sticks out.

    Boxes are shrunk by a pixel on every side first: letters seldom fill theirs.
    """
    unreadable: list[str] = driver.execute_script(OVERLAPPING_TEXT)
    return unreadable
