"""Jobs whose files are objects in a bucket of a real S3 server on this machine."""

import io
import json
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from buckets import Bucket
from explain_command import done, explain, refusal
from folder_jobs import save_onnx, write_rows
from shearshap.apps.cli import app
from shearshap.apps.jobs import Job, LocalProcesses, models
from shearshap.apps.jobs.models import open_model
from shearshap.apps.jobs.options import BackgroundOption
from shearshap.apps.jobs.tables import METADATA
from shearshap.apps.jobs.urls import place
from shearshap.apps.jobs.values import write_report
from shearshap.apps.report import GENERATOR
from shearshap.errors import InputError

pytestmark = pytest.mark.usefixtures("here")

ROWS = "a,b,c,d\n" + "".join(f"{n},{n % 3},{n % 5},{n * n % 7}\n" for n in range(40))
OPTIONS = ("--budget", "64")


@pytest.fixture
def filled(here: Path, bucket: Bucket) -> Bucket:
    """A bucket with rows, a background and a model, which are also here."""
    save_onnx(here / "model.onnx", [1.0, 2.0, 3.0, 4.0])
    (here / "rows.csv").write_text(ROWS)
    bucket.put("in/rows.csv", ROWS)
    bucket.put("in/train.csv", ROWS)
    bucket.put("in/model.onnx", (here / "model.onnx").read_bytes())
    return bucket


def explained(bucket: Bucket, *words: object, out: str) -> str:
    """Explain the rows in a bucket by the model and background in it."""
    url = f"{bucket.url}/in"
    background = ("--background", f"sample:{url}/train.csv:3")
    return done(f"{url}/model.onnx", f"{url}/rows.csv", *background, *OPTIONS, *words, out=out)


def parquet(bucket: Bucket, key: str) -> Any:
    return pd.read_parquet(io.BytesIO(bucket.get(key)))


def written_by(bucket: Bucket) -> list[str]:
    return [key for key in bucket.keys if not key.startswith("in/")]


def test_all_files_may_be_in_a_bucket(filled: Bucket, here: Path) -> None:
    url = f"{filled.url}/out/values.parquet"
    summary = explained(filled, "--interactions", "--report", out=url)
    assert f"40 of {filled.url}/in/rows.csv, 4 features each" in summary
    assert f"model       {filled.url}/in/model.onnx" in summary
    assert f"3 of the 40 rows of {filled.url}/in/train.csv" in summary
    assert f"written to  {url}" in summary
    assert f"report      {filled.url}/out/values.html, " in summary
    names = ["values.html", "values.interactions.parquet", "values.parquet"]
    assert written_by(filled) == [f"out/{name}" for name in names]
    assert GENERATOR.encode() in filled.get("out/values.html")

    words = ("--background", "sample:rows.csv:3", *OPTIONS, "--interactions")
    done("model.onnx", "rows.csv", *words)
    for name in names[1:]:
        found = parquet(filled, f"out/{name}")
        pd.testing.assert_frame_equal(found, pd.read_parquet(here / name))
    assert not (here / "s3:").exists()


def test_csv_out_and_parquet_in(filled: Bucket, here: Path) -> None:
    pd.read_csv("rows.csv").to_parquet("rows.parquet")
    data = filled.put("in/my rows%.parquet", (here / "rows.parquet").read_bytes())
    words = ("--background", f"mean:{data.replace('%', '%25')}", *OPTIONS)
    out = f"{filled.url}/values.csv"
    done(f"{filled.url}/in/model.onnx", data.replace("%", "%25"), *words, out=out)
    found = pd.read_csv(io.BytesIO(filled.get("values.csv")))
    done("model.onnx", "rows.parquet", "--background", "mean:rows.parquet", *OPTIONS)
    expected = pd.read_parquet("values.parquet")
    np.testing.assert_allclose(found["value.b"], expected["value.b"])


def test_later_report_of_values_in_a_bucket(filled: Bucket) -> None:
    explained(filled, "--interactions", out=f"{filled.url}/values.parquet")
    result = CliRunner().invoke(app, ["report", f"{filled.url}/values.parquet"])
    assert (result.exit_code, result.stdout) == (0, f"written to  {filled.url}/values.html\n")
    assert GENERATOR.encode() in filled.get("values.html")
    assert str(write_report(f"{filled.url}/values.parquet")) == f"{filled.url}/values.html"

    filled.deny("s3:GetObject")
    with pytest.raises(InputError, match=r"^values: s3://.* cannot be read: access denied \("):
        write_report(f"{filled.url}/values.parquet")


def importance(*words: str) -> Result:
    return CliRunner().invoke(app, ["importance", *words])


def test_importance_of_a_model_in_a_bucket(filled: Bucket) -> None:
    url = filled.url
    words = ["--model", f"{url}/in/model.onnx", "--data", f"{url}/labelled.csv", "--label", "y"]
    words += ["--loss", "mse", "--background", f"mean:{url}/in/train.csv", "--budget", "500"]
    words += ["--out", f"{url}/needed.csv", "--plot", f"{url}/needed.png"]
    frame = pd.read_csv("rows.csv")
    filled.put("labelled.csv", frame.assign(y=frame @ [1, 2, 3, 4]).to_csv(index=False))
    result = importance(*words)
    assert result.exit_code == 0, result.output
    assert {*pd.read_csv(io.BytesIO(filled.get("needed.csv")))["feature"]} == {*"abcd"}
    assert filled.get("needed.png").startswith(b"\x89PNG")

    words[-1] = f"{url}/labelled.csv"
    assert "plot: expected a file that ends in .png, .svg" in importance(*words).stderr


def test_service_for_a_model_in_a_bucket(filled: Bucket) -> None:
    from shearshap.apps.serve.prepared import prepare

    url = f"{filled.url}/in"
    job = Job(model=f"{url}/model.onnx", data=f"{url}/rows.csv", background=f"mean:{url}/train.csv")
    prepared = prepare(job, sample=4)
    assert prepared.model == "model.onnx"
    assert len(prepared.rows) == 40


def test_rows_that_are_done_are_kept_beside_the_values(filled: Bucket) -> None:
    data = filled.put("in/many.csv", Path("many.csv").read_bytes())
    words = ("--background", "few.csv", "--batch-size", "40")
    message = refusal("score.py:fails_late", data, *words, out=f"{filled.url}/values.parquet")
    assert message.endswith(f" are in {filled.url}/values.partial.parquet")
    assert written_by(filled) == ["values.partial.parquet"]
    facts = json.loads(
        pq.read_schema(io.BytesIO(filled.get("values.partial.parquet"))).metadata[METADATA]
    )
    assert "no 300" in facts["unfinished"]


# Where values may be written


def refused(bucket: Bucket, *words: object, out: str, data: str = "rows.csv") -> str:
    """Return the line about an output that is refused before the model, which is none, is opened."""
    before = bucket.keys
    message = refusal("no model", data, *words, out=out)
    assert bucket.keys == before
    return message


def test_foreign_object_is_not_replaced(filled: Bucket) -> None:
    out = filled.put("values.csv", "theirs")
    message = refused(filled, out=out)
    assert message.startswith(f"out: {out} already exists, and was not written by shear; choose an")
    page = filled.put("values.html", "theirs")
    message = refused(filled, "--report", out=f"{filled.url}/values.parquet")
    assert message.startswith(f"report: {page} already exists")
    explained(filled, "--overwrite", out=out)
    explained(filled, out=out)
    assert filled.get("values.csv").startswith(b'"row","base_value"')


def test_what_is_read_is_never_replaced(filled: Bucket) -> None:
    data = f"{filled.url}/in/rows.csv"
    for out in (
        data,
        f"{data}?region=us-east-1",
        data.replace("s3", "S3").replace("rows", "r%6Fws"),
    ):
        message = refused(filled, "--overwrite", data=data, out=out)
        assert "is the data explained, and would be overwritten" in message
    words = ("--overwrite", "--background", f"mean:{filled.url}/in/train.csv")
    message = refused(filled, *words, out=f"{filled.url}/in/train.csv")
    assert "is the background, and would be overwritten" in message


def test_bucket_that_cannot_be_written_to_is_noticed_before_any_work(filled: Bucket) -> None:
    filled.deny("s3:PutObject")
    message = refused(filled, out=f"{filled.url}/out/values.parquet")
    assert message.startswith(
        f"out: the folder {filled.url}/out cannot be written to: access denied ("
    )
    message = refused(filled, out="s3://no-such-bucket-here/values.parquet")
    assert message == (
        "out: the folder s3://no-such-bucket-here cannot be written to: there is no such bucket "
        "(CreateMultipartUpload)"
    )


def test_names_of_folders_are_not_names_of_files(filled: Bucket) -> None:
    filled.put("values.parquet/x", "theirs")
    job = Job(model="no model", data="rows.csv", out=f"{filled.url}/values.parquet")
    assert not job.large
    with pytest.raises(InputError, match=r"^out: s3://.*/values.parquet is a folder; expected"):
        job.run()


def test_right_to_remove_is_not_needed(filled: Bucket) -> None:
    filled.deny("s3:DeleteObject")
    explained(filled, out=f"{filled.url}/out/values.parquet")
    assert written_by(filled) == ["out/.may-write.partial", "out/values.parquet"]


# Folders of parts


@pytest.fixture
def many(filled: Bucket, here: Path) -> Bucket:
    """A bucket that also has a folder of rows, in six row groups."""
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(96, 4)), columns=list("abcd"))
    write_rows(here / "rows", frame)
    for file in (here / "rows").iterdir():
        filled.put(f"in/rows/{file.name}", file.read_bytes())
    return filled


def parts(bucket: Bucket, *words: object) -> str:
    """Explain a folder of rows in a bucket."""
    url = f"{bucket.url}/in"
    background = ("--background", f"mean:{url}/train.csv")
    words = (*background, *OPTIONS, *words)
    return done(f"{url}/model.onnx", f"{url}/rows", *words, out=f"{bucket.url}/values/")


def test_folder_of_parts_in_a_bucket_goes_on(many: Bucket, here: Path) -> None:
    summary = parts(many, "--interactions", "--report")
    assert f"written to  {many.url}/values, 6 parts" in summary
    names = [f"part-{number:06}.parquet" for number in range(6)]
    beside = ["_log.jsonl", "_manifest.json", "_report.html"]
    every = [*(f"_interactions/{name}" for name in names), *beside, *names]
    assert written_by(many) == [f"values/{name}" for name in every]

    done("model.onnx", "rows", "--background", "mean:rows.csv", *OPTIONS, out="values/")
    found = pd.concat([parquet(many, f"values/{name}") for name in names], ignore_index=True)
    pd.testing.assert_frame_equal(found, pd.read_parquet(here / "values"))

    many.client.delete_object(Bucket=many.name, Key="values/part-000002.parquet")
    many.put("values/_interactions/part-000004.parquet", "damaged")
    assert "32 explained, 64 done before" in parts(many, "--interactions", "--report")
    assert written_by(many) == [f"values/{name}" for name in every]
    log = many.get("values/_log.jsonl").decode().splitlines()
    assert [json.loads(line)["shard"] for line in log] == [*names, names[2], names[4]]


@pytest.mark.slow
def test_workers_in_processes_of_their_own_read_and_write_a_bucket(many: Bucket) -> None:
    url = many.url
    job = Job(
        model=f"{url}/in/model.onnx",
        data=f"{url}/in/rows.csv",
        background=f"mean:{url}/in/train.csv",
        out=f"{url}/values/",
        shard_rows=16,
    )
    outcome = job.run(executor=LocalProcesses(workers=1), progress=False, log=f"{url}/log.jsonl")
    assert (outcome.rows, outcome.parts) == (40, 3)
    assert written_by(many) == [
        "log.jsonl",
        "values/_manifest.json",
        *(f"values/part-{number:06}.parquet" for number in range(3)),
    ]


def test_bucket_for_parts_is_looked_at_before_any_work(many: Bucket) -> None:
    many.deny("s3:PutObject")
    out = f"{many.url}/values"
    message = refused(many, data="rows", out=f"{out}/")
    assert message.startswith(f"out: {out} cannot be written to: access denied (")
    message = refused(many, data="rows", out="s3://no-such-bucket-here/values/")
    assert message.startswith("out: s3://no-such-bucket-here/values cannot be written to: there is")
    many.deny("s3:*")
    message = refusal("no model", "rows", out=f"{out}/")
    assert message.startswith(f"out: {out} cannot be read: access denied (")
    many.allow()

    theirs = many.put("theirs/x.txt", "theirs")
    message = refused(many, data="rows", out=f"{many.url}/theirs/")
    assert message.startswith(f"out: {many.url}/theirs is not the folder of a large job, and not e")
    message = refused(many, "--log", theirs, data="rows", out=f"{out}/")
    assert message.startswith(f"log: {theirs} already exists, and was not written by shear; choose")
    rows = f"{many.url}/in/rows"
    message = refused(many, data=rows, out=f"{rows}/values/")
    assert message.startswith(f"out: {rows}/values is in the folder of the data explained; choose")
    message = refused(many, data=rows, out=f"{many.url}/in/")
    assert message.startswith(f"out: {many.url}/in holds the data explained, {rows}; choose anoth")


def test_rows_that_cannot_be_read_are_told(many: Bucket) -> None:
    many.deny("s3:GetObject")
    rows = f"{many.url}/in/rows"
    message = refusal("model.onnx", rows, "--background", "mean:rows.csv", out="values/")
    first = f"{rows}/first.parquet"
    assert message == f"data: {first} cannot be read: access denied (GetObject)"


def test_right_to_remove_is_not_needed_for_parts(many: Bucket) -> None:
    many.deny("s3:DeleteObject")
    for explained in ("96 explained", "0 explained"):
        assert explained in parts(many)


# What is not there, or refused


def test_missing_and_refused_objects_are_told_in_a_line(filled: Bucket) -> None:
    url = f"{filled.url}/in"
    missing = f"{url}/missing.csv"
    assert refusal("no model", missing) == f"data: there is no file {missing}"
    words = ("--background", missing)
    assert refusal("no model", "rows.csv", *words) == f"background: there is no file {missing}"
    model = f"{url}/missing.onnx"
    assert refusal(model, "rows.csv") == f"model: there is no file {model}"
    assert refusal("no model", "http://host/rows.csv").startswith(
        "data: expected a path or a URL th"
    )

    filled.deny("s3:GetObject")
    message = refusal("score.py:predict", f"{url}/rows.csv")
    assert message == f"data: {url}/rows.csv cannot be read: access denied (GetObject)"
    message = refusal("score.py:predict", "few.csv", "--background", f"{url}/train.csv")
    assert message == f"background: {url}/train.csv cannot be read: access denied (GetObject)"
    with pytest.raises(InputError, match=r"^model: s3://.* cannot be read: access denied \("):
        open_model(f"{url}/model.onnx")
    filled.deny("s3:*")
    message = refusal("no model", f"{url}/rows.csv")
    assert message == f"data: {url}/rows.csv cannot be read: access denied (HeadObject)"


# Models


def test_weights_beside_a_model_come_along(here: Path, bucket: Bucket) -> None:
    save_onnx(here / "m.onnx", [1.0, 2.0, 3.0, 4.0], data="weights.csv")
    bucket.put("m.onnx", (here / "m.onnx").read_bytes())
    weights = bucket.put("weights.csv", (here / "weights.csv").read_bytes())
    (here / "weights.csv").unlink()
    opened = open_model(f"{bucket.url}/m.onnx")
    assert opened.name == f"{bucket.url}/m.onnx"
    [answer] = opened.model.run(None, {"x": np.ones((1, 4), np.float32)})
    assert float(answer.squeeze()) == 10
    message = refusal(f"{bucket.url}/m.onnx", "few.csv", "--overwrite", out=weights)
    assert message == f"out: {weights} is the model, and would be overwritten; choose another name"


def test_folder_of_a_model_is_copied(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket.put("model/facts.json", "facts")
    bucket.put("model/deep/.weights", "weights")

    def opener(folder: Path) -> object:
        files = {path.name: path.read_text() for path in folder.rglob("*") if path.is_file()}
        assert files == {"facts.json": "facts", ".weights": "weights"}
        return np.sum

    found = [SimpleNamespace(load=lambda: opener)]
    monkeypatch.setattr(models, "entry_points", lambda **_: found)
    assert open_model(f"{bucket.url}/model/").model is np.sum
    assert len(models.model_files(f"{bucket.url}/model")) == 2


def test_errors_of_models_name_the_url(bucket: Bucket) -> None:
    url = bucket.put("model.txt", "tree\nversion=v4\n")
    with pytest.raises(InputError, match=rf"^model: {url} is truncated, or not a LightGBM model"):
        open_model(url)
    url = bucket.put("model.onnx", b"no model")
    with pytest.raises(InputError, match=rf"^model: {url} cannot be read: ") as error:
        open_model(url)
    assert "/tmp" not in str(error.value)
    url = bucket.put("model.pkl", b"no model")
    with pytest.raises(InputError, match=rf"^model: {url} is a pickle, and opening one runs"):
        open_model(url)
    url = bucket.put("score.py", "predict = sum")
    with pytest.raises(
        InputError, match=rf"^model: cannot tell what '{url}:predict' is; .* on this machine"
    ):
        open_model(f"{url}:predict")


# Options


@pytest.mark.parametrize(
    ("text", "choice", "file", "count"),
    [
        ("s3://bucket/train.csv", "sample", "s3://bucket/train.csv", None),
        ("sample:s3://bucket/train.csv", "sample", "s3://bucket/train.csv", None),
        ("sample:s3://bucket/train.csv:200", "sample", "s3://bucket/train.csv", 200),
        ("kmeans:gs://bucket/a:b.csv:20", "kmeans", "gs://bucket/a:b.csv", 20),
        ("mean:s3://bucket/train.csv", "mean", "s3://bucket/train.csv", None),
        *[
            (
                f"sample:s3://b/t.csv?{query}{count and f':{count}'}",
                "sample",
                f"s3://b/t.csv?{query}",
                count or None,
            )
            for query in (
                "endpoint_override=localhost:9000",
                "endpoint_override=localhost:9000&region=eu",
            )
            for count in ("", 200)
        ],
        ("sample:s3://b/t.csv?region=eu:7", "sample", "s3://b/t.csv?region=eu", 7),
        ("sample:file:///tmp/train.csv:9", "sample", "/tmp/train.csv", 9),
    ],
)
def test_background_may_be_a_url(text: str, choice: str, file: str, count: int | None) -> None:
    option = BackgroundOption.parse(text)
    assert (option.choice, str(option.file), option.count) == (choice, file, count)


def test_folders_are_told_by_what_a_bucket_holds(bucket: Bucket) -> None:
    bucket.put("rows.parquet/a.parquet")
    bucket.put("single.parquet")
    assert Job(model="m", data=f"{bucket.url}/rows.parquet").large
    assert not Job(model="m", data=f"{bucket.url}/single.parquet").large
    assert not Job(model="m", data=place(f"{bucket.url}/single.parquet")).large
    for out in ("values/", "values/?region=us-east-1"):
        assert Job(model="m", data="few.csv", out=f"{bucket.url}/{out}").large
    assert Job(model="m", data="few.csv", out=f"{bucket.url}/rows.parquet/").large


def test_paths_may_be_urls_of_this_machine(here: Path) -> None:
    done("score.py:product", f"file://{here}/few.csv", out=f"file://{here}/values.csv")
    assert (here / "values.csv").exists()


# Secrets


def test_keys_in_urls_are_nowhere_in_what_is_written(
    filled: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"s3://KEYKEY:S3CRET@{filled.name}"
    words = ["explain", "--model", f"{url}/in/model.onnx", "--data", f"{url}/in/rows.csv"]
    words += [
        "--background",
        f"sample:{url}/in/train.csv:5",
        "--out",
        f"{url}/values.parquet",
        "--report",
        *OPTIONS,
    ]
    monkeypatch.setattr("sys.argv", ["shear", *words])
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    shown = [result.output, filled.get("values.html").decode()]
    shown.append(filled.get("values.parquet").decode(errors="replace"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shown.append(
            repr(
                Job(
                    model=f"{url}/m.onnx",
                    data=f"{url}/r.csv",
                    background=f"mean:{url}/t.csv",
                    out=f"{url}/v.csv",
                )
            )
        )
    failing = explain(f"{url}/missing.onnx", f"{url}/in/rows.csv", out=f"{url}/other.parquet")
    assert failing.exit_code == 2
    shown.append(failing.output)
    for text in shown:
        assert "KEYKEY" not in text
        assert "S3CRET" not in text
    assert all(f"s3://***@{filled.name}" in text for text in shown)


def test_keys_in_urls_are_nowhere_in_a_folder_of_parts(many: Bucket) -> None:
    url = f"s3://KEYKEY:S3CRET@{many.name}"
    words = ("--background", f"mean:{url}/in/train.csv", *OPTIONS, "--report")
    done(f"{url}/in/model.onnx", f"{url}/in/rows", *words, out=f"{url}/values/")
    for key in written_by(many):
        content = many.get(key)
        assert b"KEYKEY" not in content
        assert b"S3CRET" not in content
    # another key opens the same job
    assert "0 explained, 96 done before" in parts(many, "--report")
