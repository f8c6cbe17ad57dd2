"""Models in files: each kind of file has one function that reads it."""

import hashlib
import importlib
import importlib.util
import inspect
import os
import re
import secrets
import shutil
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import reduce
from importlib.metadata import entry_points
from modulefinder import ModuleFinder
from pathlib import Path
from typing import Any

from shearshap.apps.jobs.places import (
    all_files,
    errors_of,
    exists,
    is_file,
    is_folder,
    local,
    opened,
)
from shearshap.apps.jobs.urls import Place, Url, place, without_secrets
from shearshap.errors import InputError, ModelError
from shearshap.forks import ForkSafeLock
from shearshap.models import adapted_model, eval_mode
from shearshap.models.sklearn import booster_library

ACCEPTED = (
    "a folder that an installed package opens, .onnx, .json or .ubj (XGBoost), .txt (LightGBM), "
    ".cbm (CatBoost), .joblib, .pkl or .pickle (with --trust), module:function, or "
    "path/to/file.py:function"
)
MAX_MESSAGE = 300  #: characters of another library's message that are repeated
PICKLES = (".joblib", ".pkl", ".pickle")

FOLDER_OPENERS = "shearshap.models"
"""The entry point group of functions that open a folder as a model.

Each takes the folder's path, and returns None if the folder is of another kind.
"""


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A model, and the known facts about its rows.

    A model object may bring along, by scikit-learn's habit of a trailing underscore:
    `background_`, one raw row as a mapping, which is the background if the user names none;
    `text_columns_`, the columns to read as text whatever they look like; `unseen(frame)`, which
    returns notes on cells that the model was not trained for; and `encoded_`, a torch module that
    returns margins of the classes, the function that encodes frames column by column for it, and
    the module's inputs that each column is encoded as, with which a service is faster.
    """

    model: Any
    name: str  #: for people
    columns: tuple[str, ...] = ()  #: that it takes, by name; none: they are not known
    outputs: tuple[str, ...] = ()  #: names of all its outputs
    categories: bool = False  #: whether it takes text only as categories of the frame's library
    hash: str = ""  #: of its files, as they were opened
    helpers: tuple[str, ...] = ()  #: files of the modules beside it that it has imported

    @property
    def background(self) -> Mapping[str, Any] | None:
        """The background row that the model brings along."""
        return getattr(self.model, "background_", None)

    @property
    def text_columns(self) -> tuple[str, ...]:
        """The columns that hold text, whatever it looks like."""
        return tuple(getattr(self.model, "text_columns_", ()))


def open_model(text: str, *, trust: bool = False) -> LoadedModel:
    """Open the model that the command line names, or raise with what is wrong.

    A model that is code of the user's own must be opened and called within `importing`.

    Parameters
    ----------
    text
        A folder or file, of which a URL names a copy, or a place in a module; see `ACCEPTED`.
    trust
        Whether to open pickles, which run whatever code is in them.
    """
    where = place(text, "model")
    name = without_secrets(text)
    suffix = where.suffix.lower()
    with errors_of(where, "model"):
        if is_folder(where):
            model = _opened_folder(where)
        elif suffix in LOADERS or suffix in PICKLES:
            model = _loaded(where, suffix, trust=trust)
        elif ":" in text and not isinstance(where, Url):
            model = imported(text)
        else:
            raise InputError(
                f"model: cannot tell what {name!r} is; expected {ACCEPTED}; code must be on this "
                "machine"
            )
    return described(model, name)


def described(model: Any, name: str) -> LoadedModel:
    """Return the model with what its adapter knows of it."""
    with eval_mode(model) as device:
        adapted = adapted_model(model, device)
        return LoadedModel(
            model,
            name,
            columns=tuple(adapted.feature_names),
            outputs=tuple(adapted.output_names),
            categories=booster_library(model) in {"xgboost", "lightgbm"},
        )


@dataclass(frozen=True, eq=False)
class ModelSource:
    """A model: a place that every process opens for itself, or an object that goes along."""

    #: text: a place, see `ACCEPTED`; anything else: the model itself
    model: Any = field(repr=False)
    trust: bool = False
    #: the files of the modules that it imports, which are part of it; None: not known before it is
    #: opened
    helpers: tuple[str, ...] | None = None
    hashed: bool = False  #: whether its files are hashed, for a large job
    name: str = ""  #: for people, if that is not the place
    key: str = field(default_factory=lambda: secrets.token_hex(8))  #: the same in other processes

    def open(self) -> LoadedModel:
        """Return the model, which is opened once, and stays open until `close`."""
        with _LOCK:
            if self.key not in _OPEN:
                with ExitStack() as stack:
                    if isinstance(self.model, str):
                        # as long as it is open: it may import modules when it is called, too
                        stack.enter_context(importing(self.model))
                        model = self._opened(self.model)
                    else:
                        model = described(self.model, f"a {type(self.model).__name__}")
                        model = replace(model, hash=_object_hash(self.model))
                    _OPEN[self.key] = (model, stack.pop_all())
            return _OPEN[self.key][0]

    def _opened(self, text: str) -> LoadedModel:
        """Return the model of a place, with the hash of the files that it was made of."""
        before = place_hash(text) if self.hashed else ""
        with restore_cwd():
            model = open_model(text, trust=self.trust)
        if not self.hashed:
            return model
        helpers = _imported_files(text) if self.helpers is None else self.helpers
        if before != place_hash(text):
            raise InputError(f"model: {model.name} was changed while it was opened; run it again")
        content = " ".join([before, *map(_helper_hash, helpers)])
        return replace(model, name=self.name or model.name, hash=_hash(content), helpers=helpers)

    def open_in_worker(self) -> LoadedModel:
        """Return the model; a process that is given it by a job closes those of earlier jobs."""
        with _LOCK:
            if self.key not in _OPEN:
                for key in list(_OPEN):
                    _close(key)
            return self.open()

    def close(self) -> None:
        """Forget the model, if it is open; those of other jobs in this process stay open."""
        with _LOCK:
            _close(self.key)


_LOCK = ForkSafeLock()
_OPEN: dict[str, tuple[LoadedModel, ExitStack]] = {}
"""The models that are open in this process, by their sources' keys, and what closes each."""


def _close(key: str) -> None:
    _, stack = _OPEN.pop(key, (None, ExitStack()))
    stack.close()


@contextmanager
def exits_as_errors(model: str) -> Iterator[None]:
    """Raise an error if the model's code ends the program, which would look like success."""
    try:
        yield
    except SystemExit as error:
        raise ModelError(
            f"the code of the model {model} called exit (with {error.code!r}); remove the call, "
            "or put it under if __name__ == '__main__'"
        ) from error


@contextmanager
def restore_cwd() -> Iterator[None]:
    """Go back to the current folder if the model's code has left it.

    Otherwise a relative path would name another file from then on. If several jobs run in threads,
    it is the folder of the first: the model of another may just have left it.
    """
    with _LOCK:
        folder = _FOLDERS[0] if _FOLDERS else Path.cwd()
        _FOLDERS.append(folder)
    try:
        yield
    finally:
        with _LOCK:
            _FOLDERS.pop()
            os.chdir(folder)


_FOLDERS: list[Path] = []
"""The folder to go back to, as often as there are blocks under way that will."""


# What a model is made of


def absolute_model(model: Any) -> Any:
    """Return a model by a name that does not depend on the current folder, if it is a file."""
    if not isinstance(model, str) or isinstance(place(model, "model"), Url):
        return model
    if Path(model).exists():
        return str(Path(model).absolute())
    file, separator, name = model.rpartition(":")
    return f"{Path(file).absolute()}{separator}{name}" if Path(file).is_file() else model


def place_hash(text: str) -> str:
    """Return a hash of the content of a model's files, and of the name of a function in one."""
    module, _, name = text.rpartition(":")
    files = model_files(text)
    if not files and module:
        origin = Path(getattr(_spec(module), "origin", None) or "")
        files = [origin] if origin.is_file() else []
    is_file_name = exists(place(text, "model"))
    content = " ".join(f"{file.name} {file_hash(file)}" for file in files) or module
    return _hash(f"{content} {'' if is_file_name else name}")


def file_hash(file: Place) -> str:
    """Return the hash of a file's bytes."""
    with errors_of(file, "model"), opened(file) as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _spec(module: str) -> Any:
    """Return where a module would be imported from; None if there is none."""
    with suppress(Exception):  # it may import a package, which may raise anything
        return importlib.util.find_spec(module)
    return None


def _imported_files(text: str) -> tuple[str, ...]:
    """Return the files of the modules beside a model's code that it imports, as far as is known.

    Some may have been imported before. The code of a model shows which it needs; of a pickle all
    count that are there.
    """
    folders = _code_folders(text)
    modules = [*_modules_in_code(text, folders)]
    if place(text, "model").suffix.lower() in PICKLES:
        modules += [each for name, each in [*sys.modules.items()] if name != "__main__"]
    else:
        modules += [sys.modules[name] for folder in folders for name in _modules_of(folder)]
    own = {file.resolve() for file in model_files(text) if isinstance(file, Path)}
    files = {file for each in modules if (file := _file_below(each, folders))} - own
    return tuple(sorted(str(file) for file in files if file.suffix == ".py"))


def _modules_in_code(text: str, folders: Sequence[str]) -> Iterable[Any]:
    """Return the modules of some folders that the code of a model imports, none of a pickle."""
    code = text.rpartition(":")[0]
    if not folders or not code:
        return ()
    finder = ModuleFinder([*folders])
    with suppress(Exception):  # code that cannot be read fails elsewhere
        if code.endswith(".py"):
            finder.run_script(code)
        else:
            finder.import_hook(code)
    return finder.modules.values()


def _file_below(module: Any, folders: Iterable[str]) -> Path | None:
    """Return the file of a module that is in one of some folders, and is not installed there."""
    name = getattr(module, "__file__", None)
    if not isinstance(name, str):
        return None
    file = Path(name).resolve()
    is_installed = {"site-packages", "dist-packages"} & {*file.parts} or _OWN in file.parents
    is_below = any(Path(folder) in file.parents for folder in folders)
    return file if is_below and not is_installed else None


_OWN = Path(__file__).resolve().parents[2]


def _helper_hash(path: str) -> str:
    file = Path(path)
    return f"{file.name} {file_hash(file) if file.is_file() else 'missing'}"


def _object_hash(model: Any) -> str:
    """Return a hash of what a model in memory is.

    Its pickle would not do: of a torch module or a set it differs from process to process. What
    tells such a model from another are its predictions, which a large job's manifest keeps too.
    """
    name = getattr(model, "__qualname__", type(model).__qualname__)
    return _hash(f"{name} {_source(model)}")


def _source(model: Any) -> str:
    """Return the source of a function, if it can be had."""
    try:
        return inspect.getsource(model)
    except (TypeError, OSError):  # no function, or one that was typed in
        return ""


def model_files(text: str) -> list[Place]:
    """Return the files that a model is made of; none for a module that is named by its import."""
    where = place(text, "model")
    with errors_of(where, "model"):
        if is_folder(where):
            return all_files(where)
        if not is_file(where) and not isinstance(where, Url):
            where = Path(text.rpartition(":")[0])  # path/to/file.py:function
        if not is_file(where):
            return []
        is_onnx = where.suffix.lower() == ".onnx"
        weights = _external_data(where) if is_onnx else []
        return [where, *(where.parent / name for name in weights)]


def _external_data(file: Place) -> list[str]:
    """Return the names of the files beside an ONNX model that hold its weights, as it has them.

    Each tensor kept elsewhere has an entry {key (field 1): "location", value (field 2): a name};
    before a name of up to 16,383 bytes stands its length, in one or two groups of seven bits.
    """
    with opened(file) as source:
        content = source.read()
    names = set()
    for entry in re.finditer(rb"\n\x08location\x12([\x80-\xff]?)([\x00-\x7f])", content):
        low, last = entry.groups()
        size = (low[0] & 127) + (last[0] << 7) if low else last[0]
        names.add(content[entry.end() : entry.end() + size].decode(errors="replace"))
    return [name for name in sorted(names) if is_file(file.parent / name)]


def _opened_folder(folder: Place) -> Any:
    with local(folder) as copy:
        for entry in entry_points(group=FOLDER_OPENERS):
            model = entry.load()(copy)
            if model is not None:
                return model
    raise InputError(f"model: {folder} is a folder without a model; expected {ACCEPTED}")


def _loaded(file: Place, suffix: str, *, trust: bool) -> Any:
    if not is_file(file):
        raise InputError(f"model: there is no file {file}")
    if suffix in PICKLES and not trust:
        raise InputError(
            f"model: {file} is a pickle, and opening one runs whatever code is in it; if you know "
            "who made it, add --trust, else ask for the model as .onnx or in its library's own "
            "format"
        )
    load = LOADERS.get(suffix, _unpickled)
    try:
        with _local_file(file) as copy, _errors_with_name(copy, file):
            return load(copy)
    except (InputError, PermissionError, ConnectionError):
        raise
    except ImportError as error:
        missing = (error.name or str(error)).partition(".")[0]
        raise InputError(
            f"model: {file} needs {missing}: pip install {_PACKAGES.get(missing, missing)}"
        ) from error
    except Exception as error:  # every library has its own errors
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = f"{type(error).__name__}: {lines[0] if lines else ''}"
        raise InputError(f"model: {file} cannot be read: {reason[:MAX_MESSAGE]}") from error


@contextmanager
def _errors_with_name(copy: Path, file: Place) -> Iterator[None]:
    """Name the file that the user knows, and not its copy, in errors."""
    try:
        yield
    except Exception as error:  # every library has its own errors
        error.args = tuple(
            arg.replace(str(copy), str(file)) if isinstance(arg, str) else arg for arg in error.args
        )
        raise


@contextmanager
def _local_file(file: Place) -> Iterator[Path]:
    """Yield the file of a model on this machine, with its weights beside it."""
    with local(file) as copy:
        if isinstance(file, Url) and file.suffix.lower() == ".onnx":
            for name in _external_data(file):
                target = copy.parent / name
                target.parent.mkdir(parents=True, exist_ok=True)
                with local(file.parent / name) as weights:
                    shutil.copyfile(weights, target)
        yield copy


def _onnx(file: Path) -> Any:
    import onnxruntime

    return onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])


def _xgboost(file: Path) -> Any:
    import xgboost

    return xgboost.Booster(model_file=str(file))


def _lightgbm(file: Path) -> Any:
    import lightgbm

    text = file.read_bytes()
    if not _is_whole_lightgbm(text):
        raise InputError(f"model: {file} is truncated, or not a LightGBM model: its end is missing")
    return lightgbm.Booster(model_str=re.sub(UNSAFE_LIGHTGBM, b"", text).decode())


UNSAFE_LIGHTGBM = re.compile(
    rb"^tree_sizes=.*\n|^parameters:.*\n(?:.*\n)*?end of parameters.*\n", re.MULTILINE
)
"""Lines of which damage ends the process: LightGBM reads trees of known sizes in threads, and what
is no parameter as one. Predictions do not need them."""


def _is_whole_lightgbm(text: bytes) -> bool:
    """Return whether a file of LightGBM has all trees and parameters.

    LightGBM loads some that were cut, with fewer trees and without a word.
    """
    if not re.search(rb"^version=v[3-9]", text, re.MULTILINE):
        return True  # older ones do not mark the end, and LightGBM refuses foreign files
    has_parameters = re.search(rb"^parameters:", text, re.MULTILINE)
    mark = rb"^end of parameters" if has_parameters else rb"^end of trees"
    end = re.search(mark, text, re.MULTILINE)
    if end is None:
        return False
    # the Python package writes the categories of pandas last; other programs write nothing there
    rest = text[end.end() :].strip()
    return not rest or not b"pandas_categorical:".startswith(rest)


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
_PACKAGES = {"sklearn": "scikit-learn"}  #: module -> package, if the names differ


# Code of the user's own


def imported(text: str, option: str = "model") -> Any:
    """Return what stands at module:name, or path/to/file.py:name; errors name the option."""
    module_place, _, name = text.rpartition(":")
    try:
        if module_place.endswith(".py"):
            module = _file_module(Path(module_place), option)
        else:
            module = importlib.import_module(module_place)
    except InputError:
        raise
    except Exception as error:  # whatever the module raises
        raise InputError(
            f"{option}: {module_place} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    try:
        return reduce(getattr, name.split("."), module)
    except AttributeError as error:
        functions = [
            own
            for own, value in vars(module).items()
            if callable(value) and not own.startswith("_")
        ]
        raise InputError(
            f"{option}: there is no {name!r} in {module_place}; it has {', '.join(functions[:12])}"
        ) from error


def _file_module(file: Path, option: str) -> Any:
    """Run a file as a module, which dataclasses and pickles find under its name."""
    if not file.is_file():
        raise InputError(f"{option}: there is no file {file}")
    # not the file's own name, which may be that of another module, or have a dot in it
    name = f"shear_{file.stem.replace('.', '_')}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None  # the name ends in .py
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


@contextmanager
def importing(text: str) -> Iterator[None]:
    """Let a model that is code import the modules beside it.

    They are forgotten afterwards, so that another model finds its own modules of the same names.
    Several models of a folder, in jobs of several threads, share them until the last is closed.
    """
    folders = _code_folders(text)
    if not folders:
        yield
        return
    with _LOCK:
        for folder in folders:
            _check_modules(folder)
        for folder in folders:
            users, before = _CODE.get(folder, (0, frozenset(sys.modules)))
            _CODE[folder] = (users + 1, before)
        sys.path.insert(0, folders[0])
    try:
        yield
    finally:
        with _LOCK, suppress(ValueError):  # the code may have changed the path itself
            sys.path.remove(folders[0])
        for folder in folders:
            _leave(folder)


_CODE: dict[str, tuple[int, frozenset[str]]] = {}
"""How many open models have code in a folder, and the modules before the first, by the folder."""


def _leave(folder: str) -> None:
    """Forget the modules of a folder if no other open model has its code there."""
    with _LOCK:
        own = _modules_of(folder)
        users, before = _CODE.pop(folder)
        if users > 1:
            _CODE[folder] = (users - 1, before)
            return
        for name in own:
            sys.modules.pop(name, None)


def _modules_of(folder: str) -> list[str]:
    """Return the modules that were imported from a folder since its first model was opened."""
    _, before = _CODE[folder]
    names = {*sys.modules} - before
    return [name for name in names if _file_below(sys.modules.get(name), [folder])]


def _check_modules(folder: str) -> None:
    """Raise if a model would be given a module of another folder, whose model is open too."""
    for other in _CODE.keys() - {folder}:
        for name in _modules_of(other):
            if Path(folder, f"{name}.py").exists() or Path(folder, name).is_dir():
                raise InputError(
                    f"model: another job in this process has imported {name} from {other}, and "
                    f"{folder} has a module of the same name; run the jobs one after the other, or "
                    "in processes of their own"
                )


def _code_folders(text: str) -> list[str]:
    """Return the folders whose modules a model may import; none for a model that is not code.

    That is the folder of a file of code. It is the current one for a module or a pickle, and the
    one where the module, or its package, is found, or the pickle.
    """
    file = place(text, "model")
    suffix = file.suffix.lower()
    module_place = "" if isinstance(file, Url) else text.rpartition(":")[0]
    if suffix in LOADERS or (isinstance(file, Path) and file.is_dir()):
        return []
    if module_place.endswith(".py"):
        return [str(Path(module_place).resolve().parent)]
    folders = [Path.cwd()]
    if module_place:
        origin = getattr(_spec(module_place.partition(".")[0]), "origin", None)
        if origin:
            file = Path(origin).resolve()
            folders.append(file.parent.parent if file.name == "__init__.py" else file.parent)
    elif suffix not in PICKLES:
        return []
    elif isinstance(file, Path):
        folders.append(file.resolve().parent)
    own = dict.fromkeys(map(str, folders))
    own.pop(sysconfig.get_path("stdlib"), None)
    return [*own]
