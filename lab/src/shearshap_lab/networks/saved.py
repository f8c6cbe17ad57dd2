"""Networks on disk: weights as safetensors, everything else as readable JSON, never pickle."""

import hashlib
import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from torch import Tensor

from shearshap.errors import InputError
from shearshap.store import written_whole
from shearshap_lab.data.preparation import OURS, Preparation
from shearshap_lab.networks.architectures import Config, build
from shearshap_lab.networks.training import Trained

WEIGHTS = "model.safetensors"
DESCRIPTION = "model.json"


def save(trained: Trained, folder: Path | str) -> Path:
    """Write a trained network into a folder, and return the folder."""
    safetensors = _safetensors()
    folder = Path(folder)
    state = trained.network.state_dict()
    weights = safetensors.save({name: value.contiguous() for name, value in state.items()})

    facts = {name: getattr(trained, name) for name in _described_fields()}
    facts["config"] = trained.config.to_dict()
    facts["preparation"] = asdict(trained.preparation)
    facts["sha256"] = hashlib.sha256(weights).hexdigest()

    _write(folder / WEIGHTS, weights)
    _write(folder / DESCRIPTION, (json.dumps(facts, indent=2) + "\n").encode())
    return folder


def check_replaced(folder: Path | str) -> None:
    """Raise if saving a network to a folder would replace files that are not those of one."""
    path = Path(folder) / DESCRIPTION
    if not is_saved(folder):
        return
    try:
        _description(path)
    except InputError as error:
        raise InputError(
            f"out: {folder} holds a {WEIGHTS} or a {DESCRIPTION} that 'shear train' has not "
            "written; choose another folder"
        ) from error


def is_saved(folder: Path | str) -> bool:
    """Return whether a folder holds a network, or what is left of one."""
    return any((Path(folder) / name).is_file() for name in (WEIGHTS, DESCRIPTION))


def load(folder: Path | str) -> Trained:
    """Read a trained network back; raise where a file is missing, damaged or not the other's."""
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
    preparation = _preparation(folder / DESCRIPTION, facts.pop("preparation"))
    network = build(config)
    try:
        network.load_state_dict(_tensors(weights))
    except (RuntimeError, ValueError) as error:
        raise InputError(
            f"{folder / WEIGHTS} does not hold the weights of this {config.kind}: {error}"
        ) from error
    return Trained(network.eval(), config, **facts, preparation=preparation)


def _tensors(weights: bytes) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file, or raise a ValueError."""
    safetensors = _safetensors()
    from safetensors import SafetensorError

    try:
        tensors: dict[str, Tensor] = safetensors.load(weights)
    except SafetensorError as error:
        raise ValueError(str(error)) from error
    return tensors


def _safetensors() -> Any:
    """Import safetensors, which only the paper's networks need."""
    try:
        import safetensors.torch
    except ImportError as error:
        raise InputError(
            "the paper's networks are kept as safetensors, which is not installed: "
            "pip install 'shearshap[paper]'"
        ) from error
    return safetensors.torch


def _described_fields() -> list[str]:
    """Return the fields of `Trained` that are kept in the description, which are all but one."""
    return [field.name for field in fields(Trained) if field.name != "network"]


def _description(path: Path) -> dict[str, Any]:
    wanted = {*_described_fields(), "sha256"}
    content = _read(path)
    try:
        facts: dict[str, Any] = json.loads(content)
    except ValueError as error:
        raise InputError(f"{path} is no JSON: {error}") from error
    if isinstance(facts, dict):
        facts.setdefault("preparation", asdict(OURS))  # what there was before there was a choice
    if not isinstance(facts, dict) or set(facts) != wanted:
        raise InputError(
            f"{path} does not describe a network of ours: wanted the keys {sorted(wanted)}"
        )
    return facts


def _config(path: Path, values: Any) -> Config:
    """Return the config in a description, if it has the fields and types of one."""
    example = json.loads(json.dumps(Config("", 0).to_dict()))
    wanted = _type_names(example)
    if not isinstance(values, dict) or _type_names(values) != wanted:
        raise InputError(f"{path} does not describe a network of ours: wanted a config of {wanted}")
    return Config.from_dict(values)


def _preparation(path: Path, values: Any) -> Preparation:
    """Return the preparation in a description, if it has the fields and words of one."""
    wanted = [field.name for field in fields(Preparation)]
    if not isinstance(values, dict) or sorted(values) != sorted(wanted):
        raise InputError(
            f"{path} does not describe a network of ours: wanted a preparation of {wanted}"
        )
    return Preparation(**values)


def _type_names(values: dict[str, Any]) -> dict[str, str]:
    return {name: type(value).__name__ for name, value in values.items()}


def _read(path: Path) -> bytes:
    if not path.is_file():
        raise InputError(
            f"there is no file {path}; wanted a folder made by 'shear paper train', with "
            f"{WEIGHTS} and {DESCRIPTION}"
        )
    return path.read_bytes()


def _write(path: Path, content: bytes) -> None:
    with written_whole(path) as partial:
        partial.write_bytes(content)
