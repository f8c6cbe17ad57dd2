"""Networks on disk: weights as safetensors, everything else as readable JSON, never pickle."""

import hashlib
import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError

from shearshap.errors import InputError
from shearshap.store import written_whole
from shearshap_lab.data.preparation import Preparation
from shearshap_lab.networks.architectures import Config, build
from shearshap_lab.networks.training import Trained

WEIGHTS = "model.safetensors"
DESCRIPTION = "model.json"


def save(trained: Trained, folder: Path | str) -> Path:
    """Write a trained network into a folder, and return the folder."""
    folder = Path(folder)
    state = trained.network.state_dict()
    weights = safetensors.torch.save({name: value.contiguous() for name, value in state.items()})

    facts = {field.name: getattr(trained, field.name) for field in fields(Trained)}
    del facts["network"]
    facts["config"] = trained.config.to_dict()
    facts["preparation"] = asdict(trained.preparation)
    facts["sha256"] = hashlib.sha256(weights).hexdigest()

    _write(folder / WEIGHTS, weights)
    _write(folder / DESCRIPTION, (json.dumps(facts, indent=2) + "\n").encode())
    return folder


def check_replaced(folder: Path | str) -> None:
    """Raise if saving a network to a folder would replace files that are not those of one."""
    if not is_saved(folder):
        return
    try:
        load(folder)
    except InputError as error:
        raise InputError(
            f"out: {folder} holds a {WEIGHTS} or a {DESCRIPTION} that 'shear paper train' "
            "has not written; choose another folder"
        ) from error


def is_saved(folder: Path | str) -> bool:
    """Return whether a folder holds a network, or what is left of one."""
    return any((Path(folder) / name).is_file() for name in (WEIGHTS, DESCRIPTION))


def load(folder: Path | str) -> Trained:
    """Read a trained network back; raise if a file is missing, damaged or not the other's."""
    folder = Path(folder)
    described = folder / DESCRIPTION
    content = _read(described)
    weights = _read(folder / WEIGHTS)
    try:
        facts: dict[str, Any] = json.loads(content)
        digest = facts.pop("sha256")
        config = Config.from_dict(facts.pop("config"))
        preparation = Preparation(**facts.pop("preparation"))
        network = build(config)
        trained = Trained(network, config, **facts, preparation=preparation)
    except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{described} does not describe a network of ours: {error}") from error
    if hashlib.sha256(weights).hexdigest() != digest:
        raise InputError(
            f"{folder / WEIGHTS} is damaged, or not the one that {DESCRIPTION} describes (other "
            "hash)"
        )
    try:
        network.load_state_dict(safetensors.torch.load(weights))
    except (RuntimeError, ValueError, SafetensorError) as error:
        raise InputError(
            f"{folder / WEIGHTS} does not hold the weights of this {config.kind}: {error}"
        ) from error
    network.eval()
    return trained


def _read(path: Path) -> bytes:
    if not path.is_file():
        raise InputError(
            f"there is no file {path}; expected a folder made by 'shear paper train', with "
            f"{WEIGHTS} and {DESCRIPTION}"
        )
    return path.read_bytes()


def _write(path: Path, content: bytes) -> None:
    with written_whole(path) as partial:
        partial.write_bytes(content)
