"""Paths and URLs: a real S3 server on this machine, and folders with what folders may hold."""

import errno
import multiprocessing
import os
import pickle
import shutil
import signal
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from buckets import Bucket
from clock import PATIENCE, join
from shearshap.apps.jobs import places
from shearshap.apps.jobs.places import (
    errors_of,
    exists,
    files_below,
    is_file,
    is_folder,
    local,
    opened,
    reason,
    remove,
    same,
    size,
    written_whole,
)
from shearshap.apps.jobs.urls import Place, Url, place, without_secrets
from shearshap.errors import InputError


def names(folder: Place) -> list[str]:
    found = files_below(folder, (".parquet",))
    return [str(file.relative_to(folder)) for file, _ in found]  # type: ignore[arg-type]


# Names


@pytest.mark.parametrize("text", ["rows.csv", "C:\\rows.csv", "a:b.csv", "s3:b.csv", "/x//y", "."])
def test_texts_that_are_no_url_are_paths(text: str) -> None:
    assert place(text) == Path(text)


def test_url_of_this_machine_is_a_path() -> None:
    assert place("file:///tmp/a%20b.csv") == Path("/tmp/a b.csv")
    assert place("FILE://localhost/tmp/x") == Path("/tmp/x")


def test_url_is_a_value_with_the_interface_of_a_path() -> None:
    url = place("s3://bucket/rows/a b.csv")
    assert isinstance(url, Url)
    assert str(url) == "s3://bucket/rows/a b.csv"
    assert url == place("S3://bucket/rows/a%20b.csv")
    assert (url.name, url.suffix) == ("a b.csv", ".csv")
    assert str(url.parent) == "s3://bucket/rows"
    assert str(url.parent.parent) == str(url.parent.parent.parent) == "s3://bucket"
    assert str(url.parent / "c") == str(url.with_name("c")) == "s3://bucket/rows/c"
    assert str(url.with_suffix(".x.csv")) == "s3://bucket/rows/a b.x.csv"
    assert url.is_relative_to(url.parent)
    assert not url.is_relative_to(url.parent / "a")
    assert url.relative_to(url.parent.parent).as_posix() == "rows/a b.csv"
    assert pickle.loads(pickle.dumps(url)) == url
    assert len({url, place("s3://bucket/rows/a%20b.csv")}) == 1
    odd = url.parent / "100%25 of?.csv"
    assert place(odd.address) == odd
    assert str(place("s3://bucket/a:b@c.csv")) == "s3://bucket/a:b@c.csv"
    with pytest.raises(ValueError, match=r"s3://bucket/rows is not in s3://other"):
        url.parent.relative_to(Url("s3", "other"))


def test_options_in_a_url_stay_with_all_that_is_made_of_it() -> None:
    url = place("s3://bucket/rows/?region=eu&endpoint_override=localhost:9000")
    assert str(url / "a.csv") == "s3://bucket/rows/a.csv?region=eu&endpoint_override=localhost:9000"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("http://host/rows.csv", "data: expected a path or a URL that begins with s3://, gs://"),
        ("file://host/rows.csv", "data: expected file:///folder/name, got file://host/rows.csv"),
        ("s3://", "data: there is no name of a bucket in s3://"),
        ("s3:///rows.csv", "data: there is no name of a bucket in s3:///rows.csv"),
        ("s3://bucket//rows.csv", r"data: expected names without //, /\. and /\.\. in s3://bucket"),
        ("s3://bucket/../rows.csv", "data: expected names without //"),
        ("s3://bucket/%ff.csv", "data: the name in s3://bucket/%ff.csv is not UTF-8; rename it"),
        (os.fsdecode(b"rows\xff.csv"), r"data: the name 'rows\\udcff.csv' is not UTF-8; rename it"),
        (Path("s3://bucket/rows.csv"), "data: expected a URL as text, got the path s3:/bucket/row"),
    ],
)
def test_places_that_cannot_be(text: str | Path, message: str) -> None:
    with pytest.raises(InputError, match=f"^{message}"):
        place(text, "data")


# Secrets

SECRET_URLS = [
    "s3://AKIA:S3CR%2FT@bucket/rows.csv",
    "s3://bucket/rows.csv?access_key=AKIA&secret_key=S3CRxT",
    "abfss://box:S3CR+T@account.dfs.core.windows.net/rows.csv",
    "abfs://box@account.dfs.core.windows.net/rows.csv?client_secret=S3CRT&enable_tls=true",
]


@pytest.mark.parametrize("text", SECRET_URLS)
def test_keys_in_a_url_are_in_no_text(text: str) -> None:
    url = place(text)
    assert isinstance(url, Url)
    command = f"shear explain --data 'sample:{text}' --out x.csv"
    for shown in (
        str(url),
        repr(url),
        f"{url / 'x'}",
        repr([url.parent]),
        without_secrets(command),
    ):
        assert "S3CR" not in shown
        assert "AKIA" not in shown
        assert "***" in shown
    assert url.address == text
    assert place(url.address) == url


def test_keys_in_a_url_are_in_no_error(bucket: Bucket) -> None:
    for text in ("AKIA:S3/CRT@bucket/x", "AKIA:S3CRT", "AKIA:S3?CRT@bucket/x", "AKIA:S3CRT/x"):
        with pytest.raises(InputError, match="cannot tell keys from the bucket in a URL") as error:
            place(f"s3://{text}")
        assert "CRT" not in str(error.value)

    option = place("s3://AKIA:S3CRT@bucket/x?secret_key=S3CRT")
    with (
        pytest.raises(InputError, match="Unexpected query parameter in S3 URI") as error,
        errors_of(option, "data"),
    ):
        exists(option)
    cause = error.value.__cause__
    assert "S3CRT" not in f"{error.value} {cause!r}"
    assert cause is not None
    assert cause.__cause__ is None

    bucket.deny("s3:*")
    url = place(f"s3://AKIA:S3CRT@{bucket.name}/x")
    with pytest.raises(PermissionError, match="access denied") as denied:
        exists(url)
    assert "S3CRT" not in f"{denied.value} {denied.value.__cause__!r}"


def test_texts_without_secrets_stay_as_they_are() -> None:
    text = "gs://anonymous@b/x hdfs://user@host:8020/x s3://b/x?region=eu C:\\x a@b:c"
    assert without_secrets(text) == text


# Both kinds


@pytest.fixture(params=["path", "url"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A folder of this machine, and one in a bucket."""
    if request.param == "path":
        return tmp_path
    bucket: Bucket = request.getfixturevalue("bucket")
    return place(f"{bucket.url}/folder")


def written(file: Place, content: bytes) -> None:
    with written_whole(file) as partial:
        partial.write_bytes(content)


def test_file_is_written_looked_at_read_and_removed(root: Place) -> None:
    file = root / "below" / "a b.csv"
    assert not exists(file)
    written(file, b"old")
    written(file, b"rows")
    assert exists(file)
    assert exists(file.parent)
    assert is_file(file)
    assert not is_folder(file)
    assert is_folder(root)
    assert not is_file(root)
    assert size(file) == 4
    with opened(file) as source:
        source.seek(2)
        assert source.read() == b"ws"
    with local(file) as copy:
        assert copy.name == "a b.csv"
        assert copy.read_bytes() == b"rows"
    remove(file)
    remove(file)
    assert not exists(file)


def test_nothing_appears_if_writing_fails(root: Place) -> None:
    written(root / "old.csv", b"old")
    for name in ("old.csv", "new.csv"):
        with suppress(KeyboardInterrupt), written_whole(root / name) as partial:
            partial.write_bytes(b"half")
            raise KeyboardInterrupt
    assert not exists(root / "new.csv")
    with opened(root / "old.csv") as source:
        assert source.read() == b"old"


def test_files_below_are_sorted_by_their_parts_without_hidden_ones(root: Place) -> None:
    every = [
        "a-b.parquet",
        "a/c.PARQUET",
        "a/b.parquet",
        "b.txt",
        "_x/a.parquet",
        "a/.c.parquet",
        "_d.parquet",
    ]
    for name in every:
        written(root / name, name.encode())
    assert names(root) == ["a/b.parquet", "a/c.PARQUET", "a-b.parquet"]
    assert [size for _, size in files_below(root, (".parquet",))] == [11, 11, 11]


def test_missing_places_are_errors_in_words(root: Place) -> None:
    missing = root / "missing"
    with (
        pytest.raises(InputError, match=r"^data: .*missing cannot be read: "),
        errors_of(missing, "data"),
    ):
        size(missing)
    with pytest.raises(InputError, match=r"^data: .*missing cannot be read: "):
        files_below(missing, (".parquet",))
    with pytest.raises(FileNotFoundError), opened(missing):
        pass


def test_folder_has_a_local_copy(root: Place) -> None:
    for name in ("model.json", "below/weights"):
        written(root / name, name.encode())
    with local(root) as copy:
        assert (copy / "model.json").read_bytes() == b"model.json"
        assert (copy / "below" / "weights").read_bytes() == b"below/weights"
    assert copy.exists() == isinstance(root, Path)


# Buckets


def test_more_objects_than_a_page_of_a_listing(bucket: Bucket) -> None:
    bucket.put_many(f"rows/{number:04}.parquet" for number in range(1005))
    found = names(place(f"{bucket.url}/rows"))
    assert len(found) == 1005
    assert found == sorted(found)


def test_endpoint_in_the_url(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket.put("a.csv", b"rows")
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    query = f"scheme=http&region=us-east-1&endpoint_override={bucket.endpoint}"
    with opened(place(f"s3://key:secret@{bucket.name}/a.csv?{query}")) as file:
        assert file.read() == b"rows"


def test_refusals_are_the_errors_of_files(bucket: Bucket) -> None:
    url = place(bucket.put("a.csv", b"rows"))
    bucket.deny("s3:GetObject")
    with pytest.raises(PermissionError, match="access denied") as error, opened(url) as file:
        file.read()
    assert error.value.errno == errno.EACCES
    assert error.value.filename == str(url)
    assert reason(error.value) == "access denied (GetObject)"

    bucket.deny("s3:PutObject")
    with (
        pytest.raises(InputError, match=rf"^out: {url} cannot be written: access denied \("),
        errors_of(url, "out", "written"),
    ):
        written(url, b"new")
    bucket.allow()
    assert bucket.get("a.csv") == b"rows"

    nowhere = place("s3://no-such-bucket-here/a.csv")
    with pytest.raises(FileNotFoundError, match="there is no such bucket"):
        written(nowhere, b"new")
    assert not exists(nowhere)


def test_interrupted_upload_leaves_the_whole_object(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = places._write
    main = threading.main_thread()

    def interrupted(file: Path, system: Any, path: str) -> None:
        assert main.ident is not None
        signal.pthread_kill(main.ident, signal.SIGINT)
        write(file, system, path)

    monkeypatch.setattr(places, "_write", interrupted)
    content = bytes(1 << 16)
    with pytest.raises(KeyboardInterrupt):
        written(place(f"{bucket.url}/a.csv"), content)
    assert bucket.get("a.csv") == content


@pytest.mark.slow
def test_server_that_is_not_there() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        query = f"scheme=http&region=eu&endpoint_override=127.0.0.1:{port}"
        url = place(f"s3://key:secret@bucket/a.csv?{query}")
        with (
            pytest.raises(
                InputError, match=r"^data: s3://\*\*\*@bucket.* the server cannot be reached \("
            ),
            errors_of(url, "data"),
        ):
            exists(url)


def read_in_process(url: Url, answers: "multiprocessing.Queue[bytes]") -> None:
    with opened(url) as file:
        answers.put(file.read())


@pytest.mark.parametrize("method", [pytest.param("spawn", marks=pytest.mark.slow), "fork"])
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_other_processes_read_the_same_url(bucket: Bucket, method: str) -> None:
    url = place(bucket.put("a.csv", b"rows"))
    assert exists(url)  # the filesystem is open in this process
    context: Any = multiprocessing.get_context(method)
    answers = context.Queue()
    process = context.Process(target=read_in_process, args=(url, answers))
    process.start()
    assert answers.get(timeout=PATIENCE) == b"rows"
    join(process)


def test_same_place_by_other_names(bucket: Bucket, tmp_path: Path) -> None:
    url = place(f"{bucket.url}/a.csv")
    keys = f"s3://key:secret@{bucket.name}/a.csv?region=us-east-1&endpoint_override={bucket.endpoint}&scheme=http"
    assert same(url, place(keys))
    assert places.is_within(place(keys), url.parent)
    assert not same(url, url.with_name("b.csv"))
    assert not same(url, tmp_path)
    assert not places.is_within(url, tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert same(tmp_path / "link", tmp_path / "file")


# Folders of this machine


def test_links_to_folders_are_followed_once(tmp_path: Path) -> None:
    root = tmp_path / "rows"
    written(root / "a" / "x.parquet", b"x")
    written(tmp_path / "other" / "y.parquet", b"y")
    (root / "a" / "up").symlink_to(root)
    (root / "b").symlink_to(tmp_path / "other")
    (root / "c").symlink_to(tmp_path / "other")
    assert names(root) == ["a/x.parquet", "b/y.parquet"]


def test_link_to_nothing_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "2024").symlink_to(tmp_path / "gone")
    with pytest.raises(InputError, match=r"^data: .*2024 is a link to nothing; remove it"):
        names(tmp_path)
    (tmp_path / "2024").rename(tmp_path / ".2024")
    assert names(tmp_path) == []


def test_pipe_with_the_name_of_a_file_is_an_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.lock")
    assert names(tmp_path) == []
    os.mkfifo(tmp_path / "x.parquet")
    with pytest.raises(
        InputError, match=r"^data: .*x.parquet is not a file but a pipe, socket or d"
    ):
        names(tmp_path)


def test_name_that_is_not_utf8_is_an_error(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.parquet")).touch()
    with pytest.raises(
        InputError, match=r"^data: the name '.*\\udcff.parquet' is not UTF-8; rename"
    ):
        names(tmp_path)


def test_folder_that_cannot_be_read_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "a" / "x.parquet", b"x")
    scandir = os.scandir

    def failing(path: str) -> object:
        if str(path).endswith("a"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", failing)
    with pytest.raises(InputError, match=r"^data: .* cannot be read: Permission denied"):
        names(tmp_path)


# Stores in which a file is there while it is written


def test_file_in_hdfs_takes_its_name_once_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyarrow.fs import LocalFileSystem

    class Cluster:
        """What `FileSystem` is to the module: here, HDFS is a folder of this machine."""

        @staticmethod
        def from_uri(_: str) -> tuple[object, str]:
            return LocalFileSystem(), f"{tmp_path}"

    monkeypatch.setattr(places, "FileSystem", Cluster)
    url = place("hdfs://host:8020/values.csv")
    written(url, b"old")
    written(url, b"values")
    assert (tmp_path / "values.csv").read_bytes() == b"values"
    (tmp_path / "values.csv").unlink()
    (tmp_path / "values.csv").mkdir()
    with pytest.raises(OSError, match=r"values\.csv"):
        written(url, b"new")
    shutil.rmtree(tmp_path / "values.csv")
    assert not list(tmp_path.iterdir())
