"""Networks on disk: weights as safetensors, everything else as readable JSON, never pickle."""

import hashlib
import json
from dataclasses import fields
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from shearshap.engine.store import written_whole
from shearshap.errors import InputError
from shearshap.paper.networks.architectures import Config, build
from shearshap.paper.networks.training import Trained

WEIGHTS, DESCRIPTION = "model.safetensors", "model.json"


def save(trained: Trained, folder: Path | str) -> Path:
    """Write a trained network into a folder, and return the folder."""
    folder = Path(folder)
    weights = save_tensors(
        {name: value.contiguous() for name, value in trained.network.state_dict().items()}
    )
    facts = {
        field.name: getattr(trained, field.name)
        for field in fields(Trained)
        if field.name != "network"
    }
    facts |= {"config": trained.config.to_dict(), "sha256": hashlib.sha256(weights).hexdigest()}
    _write(folder / WEIGHTS, weights)
    _write(folder / DESCRIPTION, (json.dumps(facts, indent=2) + "\n").encode())
    return folder


def load(folder: Path | str) -> Trained:
    """Read a trained network back, or raise where a file is missing, damaged or not the other's."""
    folder = Path(folder)
    facts = _description(folder / DESCRIPTION)
    weights = _read(folder / WEIGHTS)
    digest = facts.pop("sha256")
    if hashlib.sha256(weights).hexdigest() != digest:
        raise InputError(
            f"{folder / WEIGHTS} is damaged, or not the one that {DESCRIPTION} describes (other "
            "hash)"
        )
    config = _config(folder / DESCRIPTION, facts.pop("config"))
    network = build(config)
    try:
        network.load_state_dict(load_tensors(weights))
    except (RuntimeError, SafetensorError) as error:
        raise InputError(
            f"{folder / WEIGHTS} does not hold the weights of this {config.kind}: {error}"
        ) from error
    return Trained(network.eval(), config, **facts)


def _description(path: Path) -> dict[str, Any]:
    wanted = {field.name for field in fields(Trained)} - {"network"} | {"sha256"}
    content = _read(path)
    try:
        facts: dict[str, Any] = json.loads(content)
    except ValueError as error:
        raise InputError(f"{path} is no JSON: {error}") from error
    if not isinstance(facts, dict) or set(facts) != wanted:
        raise InputError(
            f"{path} does not describe a network of ours: wanted the keys {sorted(wanted)}"
        )
    return facts


def _config(path: Path, values: Any) -> Config:
    """Return the config in a description, if it has the fields and types of one."""
    blank = json.loads(json.dumps(Config("", 0).to_dict()))
    wanted = {name: type(value).__name__ for name, value in blank.items()}
    if (
        not isinstance(values, dict)
        or {name: type(value).__name__ for name, value in values.items()} != wanted
    ):
        raise InputError(f"{path} does not describe a network of ours: wanted a config of {wanted}")
    return Config.from_dict(values)


def _read(path: Path) -> bytes:
    if not path.is_file():
        raise InputError(
            f"there is no file {path}; wanted a folder made by 'shear train', with {WEIGHTS} and "
            f"{DESCRIPTION}"
        )
    return path.read_bytes()


def _write(path: Path, content: bytes) -> None:
    with written_whole(path) as name:
        name.write_bytes(content)
