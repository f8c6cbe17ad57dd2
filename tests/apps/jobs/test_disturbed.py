"""Large jobs that are disturbed, on a disk and in a bucket, in a fresh run and in a resumed one.

There are two allowed ends: every id once with the values of a run that nothing happens to; or an
error in one sentence, after which the same job, once its input is as it was, ends as the first.
"""

import io
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from buckets import Bucket
from folder_jobs import GROUP, METHOD, PARTS, ROWS, SCORE, job, table, wait_for
from shearshap.apps.jobs import Executor, InProcess, Job, LocalProcesses, Shard, ShardResult
from shearshap.apps.jobs.places import names_in, opened, remove, written_whole
from shearshap.apps.jobs.urls import Place, Url, place
from shearshap.errors import InputError, JobError

FILES = ("first", "second")  #: of half the rows each


@dataclass(frozen=True)
class Scene:
    """Where a job has its rows and its parts."""

    root: Place
    bucket: Bucket | None

    def put(self, name: str, frame: pd.DataFrame, group: int = GROUP, **options: Any) -> None:
        """Write rows to a file of the data."""
        content = io.BytesIO()
        rows = pa.Table.from_pandas(frame, preserve_index=False)
        pq.write_table(rows, content, row_group_size=group, **options)
        self.put_bytes(name, content.getvalue())

    def put_bytes(self, name: str, content: bytes) -> None:
        with written_whole(self.root / "rows" / f"{name}.parquet") as partial:
            partial.write_bytes(content)

    def get_bytes(self, name: str) -> bytes:
        with opened(self.root / "rows" / f"{name}.parquet") as file:
            return bytes(file.read())

    def remove(self, name: str) -> None:
        remove(self.root / "rows" / f"{name}.parquet")

    def restore(self) -> None:
        """Write the rows as they were."""
        for name in names_in(self.root / "rows"):
            path = self.root / "rows" / name
            if isinstance(path, Path) and path.is_dir():
                path.rmdir()
            else:
                remove(path)
        for name, frame in zip(FILES, halves(), strict=True):
            self.put(name, frame)
        if self.bucket is not None:
            self.bucket.allow()

    @property
    def parts(self) -> list[str]:
        return [name for name in names_in(self.root / "values") if name.startswith("part-")]

    def remove_parts(self, *numbers: int) -> None:
        for number in numbers:
            remove(self.root / "values" / f"part-{number:06}.parquet")

    def job(self, **options: Any) -> Job:
        options = {"data": self.root / "rows", "out": self.root / "values"} | options
        return job(shard_rows=GROUP, **options)

    def values(self) -> pd.DataFrame:
        tables = []
        for name in self.parts:
            with opened(self.root / "values" / name) as file:
                tables.append(pq.read_table(file).to_pandas())
        return pd.concat(tables, ignore_index=True)

    def check_whole(self, wanted: pd.DataFrame) -> None:
        pd.testing.assert_frame_equal(self.values(), wanted)
        others = {*names_in(self.root / "values")} - {*self.parts}
        assert others <= {"_manifest.json", "_log.jsonl"}

    def check_sound(self, wanted: pd.DataFrame) -> None:
        """What is there is right, even if it is not all."""
        if self.bucket is not None:
            self.bucket.allow()
        if self.parts:
            found = self.values()
            assert found["id"].is_unique
            right = wanted[wanted["id"].isin(found["id"])].reset_index(drop=True)
            pd.testing.assert_frame_equal(found, right)


def halves() -> tuple[pd.DataFrame, pd.DataFrame]:
    return table()[: ROWS // 2], table()[ROWS // 2 :]


@pytest.fixture(params=["disk", "bucket"])
def scene(request: pytest.FixtureRequest, folder: Path) -> Scene:
    bucket = None
    root: Place = folder
    if request.param == "bucket":
        bucket = request.getfixturevalue("bucket")
        root = place(f"{bucket.url}/jobs")
    made = Scene(root, bucket)
    made.restore()
    return made


@dataclass(frozen=True)
class Disturbed:
    """One shard after the other in this process; after the first, something happens."""

    happens: Callable[[], object]

    def run(self, work: Any, shards: Sequence[Shard]) -> Iterator[ShardResult]:
        for number, report in enumerate(InProcess().run(work, shards)):
            yield report
            if not number:
                self.happens()


def end(job: Job, executor: Executor | None = None) -> str:
    """Run a job; return the sentence of its error, "" if it has none."""
    message = ""
    try:
        job.run(progress=False, executor=executor)
    except (InputError, JobError) as error:
        message = str(error)
    assert "\n" not in message
    return message


# Input


def edit(scene: Scene) -> None:
    """One cell of the last rows, within the range of its column: the file's size is the same."""
    frame = halves()[1].reset_index(drop=True)
    at = frame.index[-3]
    frame.loc[at, "a"] = frame["a"][at] * 0.99
    scene.put("second", frame)


def edit_text(scene: Scene) -> None:
    frame = halves()[1].reset_index(drop=True)
    at = frame.index[-1]
    frame.loc[at, "s"] = "y" if frame["s"][at] == "x" else "x"
    scene.put("second", frame)


def edit_id(scene: Scene) -> None:
    frame = halves()[1].reset_index(drop=True)
    frame.loc[frame.index[-1], "id"] = "00000"
    scene.put("second", frame)


def remove_cell(scene: Scene) -> None:
    frame = halves()[1].reset_index(drop=True)
    frame.loc[frame.index[-1], "b"] = np.nan
    scene.put("second", frame)


def shuffle(scene: Scene) -> None:
    """The same rows in another order: of the same size, sums and statistics."""
    scene.put("second", halves()[1].iloc[::-1])


def swap(scene: Scene) -> None:
    first, second = halves()
    scene.put("first", second)
    scene.put("second", first)


def add_rows(scene: Scene) -> None:
    scene.put("second", pd.concat([halves()[1], table()[:5]]))


def add_file(scene: Scene) -> None:
    scene.put("third", table()[:5])


def add_file_in_front(scene: Scene) -> None:
    scene.put("early", table()[:5])


def rename(scene: Scene) -> None:
    content = scene.get_bytes("first")
    scene.remove("first")
    scene.put_bytes("zeroth", content)


def remove_file(scene: Scene) -> None:
    scene.remove("second")


def zero_pages(scene: Scene) -> None:
    content = bytearray(scene.get_bytes("second"))
    column = pq.read_metadata(io.BytesIO(content)).row_group(2).column(0)
    start = column.dictionary_page_offset or column.data_page_offset
    content[start : start + column.total_compressed_size] = bytes(column.total_compressed_size)
    scene.put_bytes("second", bytes(content))


def truncate(scene: Scene) -> None:
    scene.put_bytes("second", scene.get_bytes("second")[:-30])


def empty(scene: Scene) -> None:
    scene.put_bytes("second", b"")


def drop_column(scene: Scene) -> None:
    scene.put("second", halves()[1].drop(columns="b"))


def change_type(scene: Scene) -> None:
    scene.put("second", halves()[1].assign(k=halves()[1]["k"].astype(float)))


def forbid(scene: Scene) -> None:
    """Make a file unreadable: for root, whom no mode stops, by a folder in its place."""
    if scene.bucket is not None:
        scene.bucket.deny("s3:GetObject")
        return
    scene.remove("second")
    Path("rows/second.parquet").mkdir()


CHANGES = (
    edit, edit_text, edit_id, remove_cell, shuffle, swap, add_rows, add_file, add_file_in_front,
    rename, remove_file, zero_pages, truncate, empty, drop_column, change_type, forbid,
)  # fmt: skip
UNSEEN = (add_rows, add_file, add_file_in_front)
"""Changes that a run does not see that has begun: it has the rows of its beginning."""


@pytest.mark.parametrize("change", CHANGES)
def test_input_that_changes_while_a_job_runs(
    scene: Scene, change: Callable[[Scene], None], undisturbed: pd.DataFrame
) -> None:
    message = end(scene.job(), Disturbed(lambda: change(scene)))
    assert bool(message) == (change not in UNSEEN)
    if message:
        scene.check_sound(undisturbed)
    else:
        scene.check_whole(undisturbed)

    scene.restore()
    assert not end(scene.job())
    scene.check_whole(undisturbed)


@pytest.mark.parametrize("change", CHANGES)
def test_input_that_has_changed_when_a_job_goes_on(
    scene: Scene, change: Callable[[Scene], None], undisturbed: pd.DataFrame
) -> None:
    """Whether the rows of the missing parts have changed, or others."""
    assert not end(scene.job())
    for missing in (1, PARTS - 1) if scene.bucket is None else (1,):  # each request takes its time
        scene.remove_parts(missing)
        change(scene)
        assert end(scene.job()), change
        assert len(scene.parts) >= PARTS - 1
        scene.check_sound(undisturbed)
        scene.restore()
        assert scene.job().run(progress=False).rows <= GROUP
        scene.check_whole(undisturbed)


def test_same_rows_in_other_files_are_the_same(scene: Scene, undisturbed: pd.DataFrame) -> None:
    """Compressed, grouped and coded in another way, and under another name."""
    assert not end(scene.job())
    scene.remove_parts(2)
    first, second = halves()
    scene.put("first", first, group=7, compression="zstd", use_dictionary=False)
    scene.remove("second")
    scene.put("other", second, group=1000, data_page_version="2.0")
    assert scene.job().run(progress=False).rows == GROUP
    scene.check_whole(undisturbed)


# The model


HELPED = "from helper import add\n" + SCORE.replace("return a * b * c", "return add(0) + a * b * c")


def change_model() -> None:
    Path("score.py").write_text(Path("score.py").read_text().replace("a * b * c", "b * c"))


def change_helper() -> None:
    Path("helper.py").write_text("def add(x):\n    return x + 1\n")


@pytest.mark.parametrize("change", [change_model, change_helper])
@pytest.mark.slow
def test_model_that_changes(
    scene: Scene, change: Callable[[], None], undisturbed: pd.DataFrame
) -> None:
    """A process that is started later would open another one."""
    Path("helper.py").write_text("def add(x):\n    return x\n")
    Path("score.py").write_text(HELPED)
    sound = [Path(name).read_text() for name in ("score.py", "helper.py")]

    @dataclass(frozen=True)
    class Changing:
        def run(self, work: Any, shards: Sequence[Shard]) -> Iterator[ShardResult]:
            yield from InProcess().run(work, shards[:2])
            change()
            yield from LocalProcesses(1).run(work, shards[2:])

    def restore() -> None:
        for name, text in zip(("score.py", "helper.py"), sound, strict=True):
            Path(name).write_text(text)

    message = end(scene.job(), Changing())
    assert "is not the model that the run began with" in message
    scene.check_sound(undisturbed)
    assert len(scene.parts) == 2
    assert "holds a job with another model" in end(scene.job())
    restore()
    assert scene.job().run(progress=False).rows_before == 2 * GROUP
    scene.check_whole(undisturbed)

    scene.remove_parts(3)
    change()
    assert "holds a job with another model" in end(scene.job())
    restore()
    assert not end(scene.job())
    scene.check_whole(undisturbed)


# The folder of the parts


def test_parts_that_disappear_while_a_job_runs(scene: Scene, undisturbed: pd.DataFrame) -> None:
    message = end(scene.job(), Disturbed(lambda: scene.remove_parts(0)))
    assert f"1 of {PARTS} shards failed: part-000000.parquet" in message
    assert "its part is not in" in message
    assert not end(scene.job())
    scene.check_whole(undisturbed)


def test_folder_that_disappears_while_a_job_runs(scene: Scene, undisturbed: pd.DataFrame) -> None:
    def remove_all() -> None:
        for name in names_in(scene.root / "values"):
            remove(scene.root / "values" / name)

    assert end(scene.job(), Disturbed(remove_all))
    assert not end(scene.job())
    scene.check_whole(undisturbed)


def test_parts_of_another_job_are_made_again(scene: Scene, undisturbed: pd.DataFrame) -> None:
    """And parts that are damaged, or of other rows."""
    assert not end(scene.job(seed=1, out=scene.root / "other"))
    assert not end(scene.job())
    with opened(scene.root / "other" / "part-000001.parquet") as file:
        content = file.read()
    for number, wrong in ((1, content), (2, content), (4, content[:-9]), (5, b"")):
        with written_whole(scene.root / "values" / f"part-{number:06}.parquet") as partial:
            partial.write_bytes(wrong)
    assert scene.job().run(progress=False).rows == 4 * GROUP
    scene.check_whole(undisturbed)


@pytest.mark.usefixtures("folder")
def test_store_that_takes_nothing_more(bucket: Bucket, undisturbed: pd.DataFrame) -> None:
    scene = Scene(place(f"{bucket.url}/jobs"), bucket)
    scene.restore()
    message = end(scene.job(), Disturbed(lambda: bucket.deny("s3:PutObject")))
    assert "cannot be written: access denied" in message
    scene.check_sound(undisturbed)
    scene.restore()
    assert not end(scene.job())
    scene.check_whole(undisturbed)


# Two drivers


def test_run_that_takes_the_folder_over(scene: Scene, undisturbed: pd.DataFrame) -> None:
    """The earlier one ends; together they have made each part."""
    message = end(scene.job(), Disturbed(lambda: scene.job().run(progress=False)))
    assert "another run has taken" in message
    scene.check_whole(undisturbed)


def test_other_job_that_takes_a_new_folder_over(scene: Scene, undisturbed: pd.DataFrame) -> None:
    other = scene.job(seed=1)
    message = end(scene.job(), Disturbed(lambda: end(other)))
    scene.check_whole(undisturbed) if not message else scene.check_sound(undisturbed)
    assert not end(scene.job())
    scene.check_whole(undisturbed)


# Processes


def started(scene: Scene, *words: str) -> subprocess.Popen[str]:
    def text(name: str) -> str:
        root = scene.root
        return (root / name).address if isinstance(root, Url) else str(root / name)

    command = [
        sys.executable, "-m", "shearshap", "explain", "--model", "score.py:predict",
        "--data", text("rows"), "--out", f"{text('values')}/", "--id", "id", "--keep", "k",
        "--method", METHOD, "--budget", "22", "--background", "mean:train.parquet",
        "--shard-rows", str(GROUP), *words,
    ]  # fmt: skip
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_driver_that_is_stopped(
    scene: Scene, number: signal.Signals, undisturbed: pd.DataFrame
) -> None:
    Path("slow").touch()
    driver = started(scene, "--workers", "2")
    wait_for(lambda: len(scene.parts) > 1)
    os.kill(driver.pid, number)
    _, message = driver.communicate(timeout=180)
    codes = {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}
    assert driver.returncode == codes[number], message
    assert "Traceback" not in message
    if number != signal.SIGKILL:
        assert "run the same command again" in message

    before = len(scene.parts)
    scene.check_sound(undisturbed)
    Path("slow").unlink()
    resumed = scene.job().run(progress=False)
    assert resumed.rows_before > GROUP
    assert before * GROUP - resumed.rows_before <= 0 or number == signal.SIGKILL
    scene.check_whole(undisturbed)


@pytest.mark.slow
def test_worker_that_is_killed(scene: Scene, undisturbed: pd.DataFrame) -> None:
    Path("life-1").touch()
    outcome = scene.job().run(executor=LocalProcesses(2), progress=False)
    assert outcome.retries == 1
    scene.check_whole(undisturbed)
