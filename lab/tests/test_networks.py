"""The paper's networks: their definitions, training, files, and explaining one that looks its inputs up in tables."""

import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from safetensors.torch import save as save_tensors
from torch import Tensor, nn

from made_criteo import criteo_file
from shearshap import InputError, explain
from shearshap_lab.data import Dataset, load
from shearshap_lab.networks import (
    Config,
    DeepFM,
    NetworkClassifier,
    Trained,
    build,
    config_for,
    open_folder,
    train,
)
from shearshap_lab.networks import load as load_model
from shearshap_lab.networks import save as save_model


@pytest.fixture(scope="module")
def german() -> Dataset:
    return load("german")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return load("criteo", path=criteo_file(tmp_path_factory.mktemp("criteo") / "train.txt"))


@pytest.fixture(scope="module")
def small(german: Dataset) -> Trained:
    return train(german, steps=6)


@pytest.fixture(scope="module")
def deepfm(made: Dataset) -> Trained:
    return train(made, steps=200, learning_rate=6e-3)


def weights(trained: Trained) -> dict[str, Tensor]:
    return trained.network.state_dict()


# Networks


def slow_deepfm(network: DeepFM, row: Tensor) -> Tensor:
    """The log-odds of one row: bias, first-order weights, every pair's dot product and the deep part."""
    embeddings, start = (
        [row[number] * network.weights[number] for number in range(network.numbers)],
        0,
    )
    for place, size in enumerate(network.config.vocabularies):
        embeddings.append(network.table.weight[start + int(row[network.numbers + place])])
        start += size
    first = sum(embedding[0] for embedding in embeddings)
    pairs = sum(a[1:] @ b[1:] for a, b in combinations(embeddings, 2))
    deep: Tensor = network.deep(torch.cat([embedding[1:] for embedding in embeddings]))[0]
    return network.bias[0] + first + pairs + deep


def example() -> tuple[DeepFM, Tensor]:
    torch.manual_seed(0)
    network = build(Config("deepfm", 6, hidden=5, vocabularies=(3, 4, 2), factors=3)).double()
    assert isinstance(network, DeepFM)
    nn.init.normal_(network.bias)
    rows = torch.cat(
        (torch.randn(8, 3), torch.stack([torch.randint(size, (8,)) for size in (3, 4, 2)], dim=1)),
        dim=1,
    )
    return network, rows.double()


def test_deepfm_against_its_definition() -> None:
    network, rows = example()
    odds = torch.stack([slow_deepfm(network, row) for row in rows])
    torch.testing.assert_close(network(rows), torch.stack((-odds, odds), dim=1) / 2)


# Training


def test_training_is_decided_by_the_seed_alone(german: Dataset, small: Trained) -> None:
    torch.manual_seed(123)
    before = torch.random.get_rng_state()
    again, other = train(german, steps=6), train(german, steps=6, seed=1)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(value, weights(again)[name]) for name, value in weights(small).items())
    assert not all(
        torch.equal(value, weights(other)[name]) for name, value in weights(small).items()
    )


@pytest.mark.slow
def test_training_learns_census() -> None:
    census = load("census")
    trained = train(census, steps=400)
    assert trained.epochs == 5
    assert trained.majority == pytest.approx(0.759, abs=0.002)
    assert trained.test_accuracy > trained.majority + 0.05
    assert trained.validation_accuracy > 0.81
    assert not trained.network.training


# Files


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["small", "deepfm"])
def test_a_network_comes_back_as_it_was(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    trained: Trained = request.getfixturevalue(kind)
    folder = save_model(trained, tmp_path / "deep" / "folder")
    back = load_model(folder)
    inputs = torch.ones(5, trained.config.inputs)
    assert torch.equal(back.network(inputs), trained.network(inputs))
    assert replace(back, network=trained.network) == trained
    assert not back.network.training
    assert sorted(path.name for path in folder.iterdir()) == ["model.json", "model.safetensors"]


@pytest.mark.parametrize(
    "damage",
    ["no weights", "other weights", "cut weights", "no facts", "other facts", "other network"],
)
def test_what_is_no_network_is_refused(small: Trained, tmp_path: Path, damage: str) -> None:
    folder = save_model(small, tmp_path)
    facts = json.loads((folder / "model.json").read_text())
    if damage == "no weights":
        (folder / "model.safetensors").unlink()
    elif damage == "other weights":
        (folder / "model.safetensors").write_bytes(save_tensors({"other": torch.zeros(2)}))
    elif damage == "cut weights":
        content = (folder / "model.safetensors").read_bytes()
        (folder / "model.safetensors").write_bytes(content[:100])
    elif damage == "no facts":
        (folder / "model.json").write_text("{")
    elif damage == "other facts":
        (folder / "model.json").write_text(json.dumps({**facts, "extra": 1}))
    else:
        facts["config"]["hidden"] = 32
        (folder / "model.json").write_text(json.dumps(facts))
    with pytest.raises(InputError, match="expected a network, as 'shear paper train' saves it"):
        load_model(folder)


# Classifiers of raw rows


@pytest.fixture(scope="module", params=["census", "bank", "german", "criteo"])
def classifier(request: pytest.FixtureRequest, made: Dataset) -> NetworkClassifier:
    """A network that was not trained, for each data set."""
    dataset = made if request.param == "criteo" else load(request.param)
    torch.manual_seed(0)
    config = config_for(dataset)
    network = build(config).eval()
    return NetworkClassifier(Trained(network, config, dataset.name, 0, 0, 0.0, 0.0, 0.0), dataset)


def raw_rows(dataset: Dataset, path: Path, library: str, rows: int = 300) -> Any:
    """The first rows of a data set as its CSV file is read by a library."""
    text = list(dataset.encoder.categories)
    replace(
        dataset,
        display=dataset.display[:rows],
        labels=dataset.labels[:rows],
        train=np.arange(rows),
        validation=np.arange(0),
        test=np.arange(0),
    ).write(path)
    if library == "polars":
        schema = dict.fromkeys(text, pl.String)
        return pl.read_csv(path, schema_overrides=schema, infer_schema_length=None)
    frame = pd.read_csv(path, dtype=dict.fromkeys(text, str))
    return pa.Table.from_pandas(frame) if library == "pyarrow" else frame


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_raw_rows_become_the_inputs_of_the_data_set(
    classifier: NetworkClassifier, tmp_path: Path, library: str
) -> None:
    dataset = classifier.dataset
    frame = raw_rows(dataset, tmp_path / "rows.csv", library)
    np.testing.assert_allclose(classifier.encode(frame), dataset.inputs[:300], rtol=1e-5, atol=1e-6)


def test_a_classifier_has_scikit_learns_habits(
    classifier: NetworkClassifier, tmp_path: Path
) -> None:
    dataset = classifier.dataset
    frame = raw_rows(dataset, tmp_path / "rows.csv", "pandas")
    with torch.no_grad():
        logits = classifier.trained.network(torch.from_numpy(dataset.inputs[:300]))
    np.testing.assert_allclose(classifier.decision_function(frame), logits, rtol=1e-4, atol=1e-5)
    chances = classifier.predict_proba(frame)
    np.testing.assert_allclose(chances, logits.softmax(dim=1), rtol=1e-4)
    assert classifier.classes_.tolist() == list(dataset.classes)
    assert classifier.predict(frame).tolist() == [
        dataset.classes[int(at)] for at in chances.argmax(axis=1)
    ]
    assert classifier.feature_names_in_.tolist() == dataset.feature_names
    assert classifier.unseen(frame) == [] or dataset.name == "census"


def test_the_background_row_is_the_training_mean_and_mode(classifier: NetworkClassifier) -> None:
    dataset = classifier.dataset
    assert list(classifier.background_) == dataset.feature_names
    encoded = classifier.encode(pd.DataFrame([classifier.background_]))[0]
    training = dataset.inputs[dataset.train]
    for at, name in enumerate(dataset.feature_names):
        columns = dataset.groups[name]
        if name in dataset.encoder.numeric:
            np.testing.assert_allclose(
                encoded[columns], training[:, columns].mean(axis=0), atol=2e-4
            )
        else:
            words, counts = np.unique(
                dataset.display[dataset.train, at].astype(str), return_counts=True
            )
            assert counts[words == classifier.background_[name]] == counts.max()


def test_categories_that_training_did_not_have_are_noted(german: Dataset, small: Trained) -> None:
    classifier = NetworkClassifier(small, german)
    frame = pd.DataFrame(german.display[:3], columns=german.feature_names)
    assert classifier.unseen(frame) == []
    assert classifier.unseen(frame.assign(purpose=["a boat", "new car", None])) == [
        "purpose: 2 of 3 cells hold a category that training did not have, such as 'a boat'"
    ]
    with pytest.raises(InputError, match="column 'amount' is missing in row 1"):
        classifier.unseen(frame.assign(amount=["3", "", "4"]))


def test_rows_that_cannot_be_read_are_refused(german: Dataset, small: Trained) -> None:
    classifier = NetworkClassifier(small, german)
    with pytest.raises(InputError, match="rows: expected a pandas, polars or pyarrow frame, got"):
        classifier.predict(german.inputs[:2])
    frame = pd.DataFrame(german.display[:3], columns=german.feature_names)
    with pytest.raises(InputError, match="rows: column 'amount' is missing; german has checking,"):
        classifier.predict(frame.drop(columns="amount"))
    with pytest.raises(InputError, match="column 'amount' must hold numbers: "):
        classifier.predict(frame.assign(amount="much"))


def test_a_folder_is_opened_as_a_classifier(
    german: Dataset, small: Trained, tmp_path: Path
) -> None:
    assert open_folder(tmp_path) is None
    opened = open_folder(save_model(small, tmp_path))
    assert opened is not None
    frame = pd.DataFrame(german.display[:3], columns=german.feature_names)
    wanted = NetworkClassifier(small, german).predict_proba(frame)
    np.testing.assert_array_equal(opened.predict_proba(frame), wanted)
    with pytest.raises(InputError, match="path: only criteo reads your own file"):
        open_folder(tmp_path, data="x.txt")
    (tmp_path / "model.json").unlink()
    with pytest.raises(InputError, match="expected a network"):
        open_folder(tmp_path)


def test_a_classifier_is_explained_on_raw_rows(german: Dataset, small: Trained) -> None:
    """The background of one raw row is the same one, encoded, of the network itself."""
    classifier = NetworkClassifier(small, german)
    frame = pd.DataFrame(german.display[:4], columns=german.feature_names)
    background = classifier.encode(pd.DataFrame([classifier.background_]))[0]
    options: dict[str, Any] = {"budget": 120, "method": "leverage"}
    numbers = frame.astype(dict.fromkeys(german.encoder.numeric, float))
    raw = explain(classifier, numbers, reference=classifier.background_, scale="logit", **options)
    encoded = explain(
        small.network, german.inputs[:4], reference=background, groups=german.groups, **options
    )
    np.testing.assert_allclose(raw.values, encoded.values, atol=1e-5)


# Explaining DeepFM


@pytest.mark.slow
def test_deepfm_is_explained(made: Dataset, deepfm: Trained) -> None:
    rows = made.inputs[made.test[:4]]
    for method in ("leverage", "shear"):
        explanation = explain(
            deepfm.network,
            rows,
            reference=made.background,
            groups=made.groups,
            budget=400,
            method=method,
            output=1,
        )
        assert explanation.values.shape == (4, 39)
        if method == "leverage":
            np.testing.assert_allclose(explanation.gap, 0, atol=1e-5)
        else:
            assert explanation.derivative_passes > 0
    logits = deepfm.network(torch.from_numpy(rows))[:, 1].detach()
    np.testing.assert_allclose(explanation.predictions, logits, rtol=1e-5)
