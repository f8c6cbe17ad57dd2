"""Large jobs whatever happens: processes that die, disks that fill up, rows that cannot be read, Ctrl-C."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch

from folder_jobs import (
    GROUP,
    PARTS,
    ROWS,
    WORDS,
    check_whole,
    explained,
    job,
    parts,
    refusal,
    table,
    values,
    wait_for,
)
from shearshap import Explainer, store
from shearshap.apps.jobs import LocalProcesses, work
from shearshap.apps.jobs.folder import LOG
from shearshap.errors import InputError, JobError

pytestmark = pytest.mark.usefixtures("folder")
needs_signals = pytest.mark.skipif(os.name == "nt", reason="Windows interrupts in another way")


def log() -> list[dict[str, Any]]:
    path = Path("values", LOG)
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def started(*words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "shearshap", "explain", *WORDS, "--out", "values/", *words]
    # a group of its own, whose processes all get the signal, as from a terminal
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip


def make_slow() -> None:
    """Let a job last until it is ended, however slow this process is."""
    Path("slow").touch()
    Path("endless").write_text(str(table()["a"].iloc[-1]))


# Processes


@pytest.mark.slow
def test_a_worker_that_is_killed(undisturbed: pd.DataFrame) -> None:
    """Of two workers, whose values are those of one."""
    Path("life-1").touch()
    summary = job().run(executor=LocalProcesses(2), progress=False)
    assert summary.retries == 1
    assert not Path("life-1").exists()
    check_whole(values(), undisturbed)

    Path("life-1").touch()
    table()[:GROUP].to_parquet("few.parquet")
    executor = LocalProcesses(1, attempts=1)
    with pytest.raises(JobError) as raised:
        job(data="few.parquet", out="few").run(executor=executor, progress=False)
    text = str(raised.value)
    assert "1 of 1 shard failed: part-000000.parquet (rows 0 to 15 of" in text
    assert "after 1 attempt: the worker died: signal SIGKILL; " in text


@needs_signals
@pytest.mark.slow
def test_a_run_that_is_killed_and_damaged_comes_out_as_another(undisturbed: pd.DataFrame) -> None:
    """A worker and the driver are killed at random moments, and what they leave is damaged."""
    rng = random.Random(0)
    make_slow()
    driver = started("--workers", "2")
    wait_for(lambda: len(log()) > 1)
    with pytest.raises(InputError, match=rf"another run is using .*process {driver.pid} on"):
        explained()
    time.sleep(rng.uniform(0, 0.3))
    children = Path(f"/proc/{driver.pid}/task/{driver.pid}/children").read_text().split()
    os.kill(int(rng.choice(children)), signal.SIGKILL)
    time.sleep(rng.uniform(0, 0.3))
    driver.kill()
    driver.communicate(timeout=180)
    workers = {int(entry["worker"].split(":")[1]) for entry in log()}
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))
    part = Path("values", rng.choice(sorted(parts())))
    content = bytearray(part.read_bytes())
    content[rng.randrange(len(content))] ^= 255
    part.write_bytes(content)

    Path("slow").unlink()
    Path("endless").unlink()
    again = explained()
    assert again.rows + again.rows_before == ROWS
    assert GROUP <= again.rows < ROWS
    check_whole(values(), undisturbed)

    manifest = Path("values/_manifest.json")
    sound = json.loads(manifest.read_bytes())
    sound["preparation"]["predictions"] = {}
    manifest.write_text(json.dumps(sound))
    assert "_manifest.json is damaged" in refusal()


@needs_signals
@pytest.mark.slow
@pytest.mark.parametrize("moment", ["an import", "workers that start", "a shard"])
def test_a_signal_leaves_no_traceback(moment: str) -> None:
    make_slow()
    driver = started("--workers", "2")
    if moment == "an import":
        wait_for(lambda: "libtorch" in Path(f"/proc/{driver.pid}/maps").read_text())
    elif moment == "workers that start":
        wait_for(Path("values/_manifest.json").exists)
        time.sleep(0.2)
    else:
        wait_for(log)
    workers = {int(entry["worker"].split(":")[1]) for entry in log()}
    number = signal.SIGTERM if workers else signal.SIGINT
    if workers:
        driver.send_signal(number)  # as from Kubernetes, to the driver alone
    else:
        os.killpg(driver.pid, number)
    _, message = driver.communicate(timeout=180)
    assert driver.returncode == 128 + number, message
    last = message.splitlines()[-1].strip()  # behind what a progress bar leaves
    assert last.startswith("stopped; ")
    assert "Traceback" not in message
    assert "ignored" not in message
    if moment != "an import":
        assert last == "stopped; finished work is kept; run the same command again to resume"
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))


# Disks


@pytest.fixture
def small_disk(folder: Path) -> Iterator[Callable[[str], None]]:
    """A disk at values/ that is mounted with one size, and can be given another."""
    place = folder / "values"
    place.mkdir()

    def mount(options: str) -> None:
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
        done = subprocess.run(command, capture_output=True, check=False)
        if done.returncode:
            pytest.skip("only root can mount a disk")

    if os.geteuid() or shutil.which("mount") is None:
        pytest.skip("only root can mount a disk")
    mount("size=64k")
    yield lambda size: mount(f"remount,size={size}")
    subprocess.run(["umount", str(place)], check=True)


def test_a_disk_that_is_full(small_disk: Callable[[str], None], undisturbed: pd.DataFrame) -> None:
    with pytest.raises(JobError) as raised:
        explained()
    text = str(raised.value)
    assert "No space left on device" in text
    assert "; stopped: " in text
    done = raised.value.summary.rows
    assert 0 < done < ROWS
    assert len(values()) == done  # nothing half-written

    small_disk("10m")
    assert explained().rows == ROWS - done
    check_whole(values(), undisturbed)


def test_a_disk_that_takes_no_more_files(
    undisturbed: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish = store._publish

    def failing(partial: Path, path: Path) -> None:
        if path.name == "part-000004.parquet":
            raise OSError(28, "No space left on device")
        publish(partial, path)

    with monkeypatch.context() as patched:
        patched.setattr(store, "_publish", failing)
        words = rf"1 of {PARTS} shards .*part-000004.*No space left on device"
        with pytest.raises(JobError, match=words):
            explained()
    assert len(values()) == 4 * GROUP
    explained()
    check_whole(values(), undisturbed)


# Rows


@pytest.mark.slow
@pytest.mark.parametrize("background", ["absent.parquet", None])
def test_a_row_group_that_is_corrupt(background: str | None) -> None:
    """Without a background, it is a sample of the rows that could be read when the job began."""
    file = Path("rows/first.parquet")
    sound = file.read_bytes()
    column = pq.read_metadata(file).row_group(2).column(0)
    start = column.dictionary_page_offset or column.data_page_offset
    broken = bytearray(sound)
    broken[start : start + column.total_compressed_size] = bytes(column.total_compressed_size)
    table().drop(columns="id")[:3].to_parquet("absent.parquet")
    budget = 250 if background is None else 66
    options: dict[str, Any] = {"background": background, "budget": budget, "method": "leverage"}
    explained(out="sound", **options)
    file.write_bytes(broken)
    with pytest.raises(JobError) as raised:
        explained(**options)
    text = str(raised.value)
    assert f"1 of {PARTS} shards failed: part-000002.parquet (rows 32 to 47 of" in text
    assert "cannot be read" in text
    assert raised.value.summary.rows == ROWS - GROUP

    file.write_bytes(sound)
    explained(**options)
    assert len(values()["base_value"].unique()) == 1
    if background is not None:
        check_whole(values(), values("sound"))


def test_a_model_that_raises_on_one_row(undisturbed: pd.DataFrame) -> None:
    wrong = 83  # it is not in the sample that the method is tried on
    Path("bad").write_text(repr(float(table()["a"][wrong])))
    message = refusal()
    assert f"1 of {PARTS} shards failed: part-000005.parquet" in message
    assert "after 3 attempts: the model failed" in message
    assert "RuntimeError: cannot score this" in message
    assert f"this is row {wrong}" in message
    assert len(values()) == ROWS - GROUP
    assert not list(Path("values").glob(".*.partial"))
    assert [entry["shard"] for entry in log() if entry["error"]] == ["part-000005.parquet"]

    Path("bad").unlink()
    assert explained().rows == GROUP
    check_whole(values(), undisturbed)


@pytest.mark.slow
def test_a_sample_does_without_the_rows_that_the_model_fails_on() -> None:
    Path("bad").write_text(repr(float(table()["a"][0])))
    with pytest.raises(JobError, match=f"1 of {PARTS} shards"):
        explained()
    assert len(values()) == ROWS - GROUP


@pytest.mark.slow
def test_fewer_rows_are_explained_at_once_after_memory_has_run_out(
    undisturbed: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    stream = Explainer.stream

    def small(self: Explainer, rows: Any, **options: Any) -> Any:
        sizes.append(len(rows))
        if len(rows) > GROUP // 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return stream(self, rows, **options)

    monkeypatch.setattr(Explainer, "stream", small)
    monkeypatch.setattr(work, "MIN_ROWS", 4)
    assert explained().retries == PARTS
    assert set(sizes) == {GROUP, GROUP // 2}
    found = values()
    assert found["id"].tolist() == table()["id"].tolist()
    np.testing.assert_allclose(
        found.filter(like="value"), undisturbed.filter(like="value"), atol=1e-6
    )
