"""The recipes of data engines, run by the engines themselves: docs/howto/large-jobs.md.

`scripts/engines.sh` installs Dask and Spark, and runs these tests.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from recipes import COUNT, HOUSES, check_values, prepared
from shearshap.engine.prepared import PreparedExplainer


@pytest.fixture
def rows(tmp_path: Path) -> str:
    """A folder of two Parquet files."""
    folder = tmp_path / "rows"
    folder.mkdir()
    for number in range(2):
        half = HOUSES[number * COUNT // 2 : (number + 1) * COUNT // 2]
        half.to_parquet(folder / f"{number}.parquet", index=False, row_group_size=20)
    return str(folder)


@pytest.mark.ray
@pytest.mark.xdist_group("ray")
@pytest.mark.usefixtures("session")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Ray's, of its own options
@pytest.mark.parametrize(("form", "size"), [("pyarrow", 30), ("pandas", 50), ("numpy", 1000)])
def test_ray_data(rows: str, form: str, size: int) -> None:
    data = pytest.importorskip("ray.data")
    data.DataContext.get_current().enable_progress_bars = False
    ready = prepared()
    table = data.read_parquet(rows)
    values = table.map_batches(ready.table, batch_format=form, batch_size=size)
    check_values(values.to_pandas(), ready)


# Dask


def values_of(part: pd.DataFrame, ready: PreparedExplainer) -> pd.DataFrame:
    """Return the values of a partition."""
    return ready.table(part).to_pandas()


@pytest.mark.parametrize(
    ("scheduler", "partitions"), [("threads", 1), ("threads", 40), ("processes", 5)]
)
def test_dask(rows: str, scheduler: str, partitions: int) -> None:
    dask = pytest.importorskip("dask", reason="Dask is not installed: sh scripts/engines.sh")
    table = pytest.importorskip("dask.dataframe").read_parquet(rows)
    ready = prepared()
    values = table.repartition(npartitions=partitions).map_partitions(
        values_of, ready, meta=ready.schema.empty_table().to_pandas()
    )
    with dask.config.set(scheduler=scheduler, num_workers=2):
        check_values(values.compute(), ready)


def test_dask_with_empty_partitions(rows: str) -> None:
    frames = pytest.importorskip("dask.dataframe", reason="Dask is not installed")
    table = frames.read_parquet(rows).repartition(npartitions=4)
    ready = prepared()
    meta = ready.schema.empty_table().to_pandas()
    for first in ("house-070", "a"):  # the last partitions are empty, or all are
        few = table[table["id"] < first].map_partitions(values_of, ready, meta=meta)
        values = few.compute(scheduler="sync")
        assert len(values) == (HOUSES["id"] < first).sum()
        pd.testing.assert_series_equal(values.dtypes, meta.dtypes)


# Spark


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    """A session of Spark with two workers."""
    sql = pytest.importorskip("pyspark.sql", reason="Spark is not installed: sh scripts/engines.sh")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    builder = sql.SparkSession.builder.master("local[2]")
    options = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    for name, option in options.items():
        builder = builder.config(name, option)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        # workers import what is defined in tests
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[1]), prepend=os.pathsep)
        session = builder.getOrCreate()
        yield session
        session.stop()


@pytest.mark.parametrize("partitions", [1, 3, 40])
def test_spark(spark: Any, rows: str, partitions: int) -> None:
    from pyspark.sql.pandas.types import from_arrow_schema

    ready = prepared()

    def explained(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from ready.table(batch).to_batches()

    table = spark.read.parquet(rows).repartition(partitions)
    values = table.mapInArrow(explained, from_arrow_schema(ready.schema))
    check_values(values.toPandas(), ready)
    assert table.filter("id = ''").mapInArrow(explained, values.schema).count() == 0


def test_spark_with_batches_of_pandas(spark: Any, rows: str) -> None:
    from pyspark.sql.pandas.types import from_arrow_schema

    ready = prepared()

    def explained(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for batch in batches:
            yield ready.table(batch).to_pandas()

    values = spark.read.parquet(rows).mapInPandas(explained, from_arrow_schema(ready.schema))
    check_values(values.toPandas(), ready)
