"""Models in files: each kind of file has one function that reads it."""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

from shearshap.adapters import Scale, adapt
from shearshap.errors import InputError
from shearshap.paper.networks.raw_rows import Network, network

ACCEPTED = (
    "a folder made by 'shear train', .onnx, .json or .ubj (XGBoost), .txt (LightGBM), .cbm "
    "(CatBoost), .joblib, .pkl "
    "or .pickle (with --trust), module:function, or path/to/file.py:function"
)
PICKLES = (".joblib", ".pkl", ".pickle")


@dataclass(frozen=True, eq=False)
class Opened:
    """A model, and what it says of the rows that it takes."""

    model: Any
    name: str  #: for people
    columns: tuple[str, ...] = ()  #: that it takes, by name; none: it does not say
    width: int | None = None  #: how many columns it takes, where it says no more
    outputs: tuple[str, ...] = ()  #: names of all its outputs
    takes_missing: bool = True
    categories: bool = False  #: whether it takes text as categories of the frame's library only
    network: Network | None = None  #: of our own, with the encoder of its data set


def open_model(
    given: str, *, trust: bool = False, scale: Scale | None = None, path: Path | None = None
) -> Opened:
    """Open the model that the command line names, or raise with what is wrong.

    Code of the user's own finds its modules within `importing`, for as long as the model is asked.

    Parameters
    ----------
    given
        A folder or file, or a place in a module; see `ACCEPTED`.
    trust
        Whether to open pickles, which run whatever code is in them.
    scale
        As in `Explainer`; what does not go with this model is refused here.
    path
        The user's copy of Criteo's file, where a folder's network was trained on it.
    """
    file = Path(given)
    if file.is_dir():
        own = network(file, path)
        return Opened(
            own.module, f"{file} ({own.told})", own.features, outputs=own.classes, network=own
        )
    suffix = file.suffix.lower()
    if suffix in LOADERS or suffix in PICKLES:
        return _described(_loaded(file, suffix, trust=trust), given, scale, suffix)
    if ":" in given:
        return _described(_imported(given), given, scale, suffix)
    raise InputError(f"model: cannot tell what {given!r} is; wanted {ACCEPTED}")


def _described(model: Any, name: str, scale: Scale | None, suffix: str) -> Opened:
    """Return the model with what its adapter tells of it."""
    with adapt(model, scale, None) as adapted:
        return Opened(
            model,
            name,
            tuple(adapted.feature_names),
            _width(model) if suffix == ".onnx" else None,
            tuple(adapted.output_names),
            adapted.takes_frames or adapted.takes_missing,
            categories=suffix in (".json", ".ubj", ".txt"),
        )


def _loaded(file: Path, suffix: str, *, trust: bool) -> Any:
    if not file.is_file():
        raise InputError(f"model: there is no file {file}")
    if suffix in PICKLES and not trust:
        raise InputError(
            f"model: {file} is a pickle, and opening one runs whatever code is in it; if you know "
            "who made it, add "
            "--trust, else ask for the model as .onnx or in its library's own format"
        )
    load = LOADERS.get(suffix, _unpickled)
    try:
        return load(file)
    except ImportError as error:
        missing = (error.name or str(error)).partition(".")[0]
        raise InputError(
            f"model: {file} needs {missing}: pip install {_PACKAGES.get(missing, missing)}"
        ) from error
    except Exception as error:  # every library has errors of its own
        raise InputError(
            f"model: {file} cannot be read: {type(error).__name__}: {error}"
        ) from error


def _onnx(file: Path) -> Any:
    import onnxruntime

    return onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])


def _xgboost(file: Path) -> Any:
    import xgboost

    return xgboost.Booster(model_file=str(file))


def _lightgbm(file: Path) -> Any:
    import lightgbm

    return lightgbm.Booster(model_file=str(file))


def _catboost(file: Path) -> Any:
    import catboost

    return catboost.CatBoost().load_model(str(file))


def _unpickled(file: Path) -> Any:
    import joblib

    return joblib.load(file)


LOADERS: dict[str, Callable[[Path], Any]] = {
    ".onnx": _onnx,
    ".json": _xgboost,
    ".ubj": _xgboost,
    ".txt": _lightgbm,
    ".cbm": _catboost,
}
_PACKAGES = {"sklearn": "scikit-learn"}  #: where a package's name is not its module's


def _width(session: Any) -> int | None:
    """Return how many columns a session of one input takes, where it says so."""
    first, *others = session.get_inputs()
    fixed = not others and len(first.shape) == 2 and isinstance(first.shape[1], int)
    return first.shape[1] if fixed else None


def _imported(given: str) -> Any:
    """Return what stands at module:name, or path/to/file.py:name."""
    place, _, name = given.rpartition(":")
    try:
        module = (
            _file_module(Path(place)) if place.endswith(".py") else importlib.import_module(place)
        )
    except InputError:
        raise
    except Exception as error:  # whatever the module raises
        raise InputError(
            f"model: {place} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    try:
        return reduce(getattr, name.split("."), module)
    except AttributeError as error:
        there = [
            own
            for own in vars(module)
            if callable(getattr(module, own)) and not own.startswith("_")
        ]
        raise InputError(
            f"model: there is no {name!r} in {place}; it has {', '.join(there[:12])}"
        ) from error


def _file_module(file: Path) -> Any:
    """Run a file as a module, which dataclasses and pickles find under its name."""
    if not file.is_file():
        raise InputError(f"model: there is no file {file}")
    name = _free_name(file)
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None  # the name ends in .py
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _free_name(file: Path) -> str:
    """Return the name of a file's module, another one where a module of that name is there already."""
    there = sys.modules.get(file.stem)
    own = there is None or getattr(there, "__file__", None) == str(file.absolute())
    return file.stem if own else f"shear_{file.stem}"


@contextmanager
def importing(given: str) -> Iterator[None]:
    """Let the code of a model that is code find the modules beside it."""
    folder = _code_folder(given)
    if folder is None:
        yield
        return
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        with suppress(ValueError):  # the code may have changed the path itself
            sys.path.remove(folder)


def _code_folder(given: str) -> str | None:
    """Return the folder of a file of code, or that of the command for a module or a pickle; else
    None.
    """
    file, place = Path(given), given.rpartition(":")[0]
    if file.is_dir() or file.suffix.lower() in LOADERS:
        return None
    if place.endswith(".py"):
        return str(Path(place).resolve().parent)
    return str(Path.cwd()) if place or file.suffix.lower() in PICKLES else None
