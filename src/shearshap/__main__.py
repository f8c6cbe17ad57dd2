"""The program `shear`, which a signal ends without a traceback, from its first import on.

SIGTERM, with which Slurm and Kubernetes stop a program, does what Ctrl-C does: finished rows are
kept. `shear serve` takes no part: its server answers the requests that it has, and then ends by the
signal.
"""

import _thread
import os
import signal
import sys
from functools import partial
from importlib.util import find_spec
from types import FrameType
from typing import Any

_signal: signal.Signals | None = None  #: that has stopped the program


def main() -> None:
    """Run the command line; exit with 128 + the number of the signal if one has stopped it."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is to be ignored
        _stop_by(signal.SIGINT)
    is_service = sys.argv[1:2] == ["serve"]
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL and not is_service:
        _stop_by(signal.SIGTERM)
        if hasattr(os, "register_at_fork"):  # processes of a model end as they would elsewhere
            os.register_at_fork(
                after_in_child=partial(signal.signal, signal.SIGTERM, signal.SIG_DFL)
            )
    if find_spec("typer") is None:
        sys.exit("error: the command shear needs typer: pip install 'shearshap[explain]'")
    try:
        from shearshap.apps.cli import app

        app(prog_name="shear")
    except BaseException as error:
        # in the middle of an import, an interrupt may come out as any error
        if not _signal or (isinstance(error, SystemExit) and not error.code):
            raise
        command = sys.modules.get("shearshap.apps.cli")
        if not getattr(command, "stop_reported", False):
            sys.stderr.write("stopped; no partial file was left\n")
        # not sys.exit: Python would end by the signal if code within exec() was interrupted
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(128 + _signal)
    finally:
        # all is said, and Python takes a while to end
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if not is_service:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _stop_by(number: int) -> None:
    """Let a signal stop the program by a `KeyboardInterrupt`."""
    signal.signal(number, _interrupt)
    sys.unraisablehook = _unraisable


def _interrupt(number: int, _frame: FrameType | None) -> None:
    global _signal
    _signal = signal.Signals(number)
    raise KeyboardInterrupt


def _unraisable(unraisable: Any) -> None:
    """Raise an interrupt again that came where nothing can be raised, such as in a callback."""
    if unraisable.exc_type is KeyboardInterrupt:
        _thread.interrupt_main(_signal or signal.SIGINT)
    else:
        sys.__unraisablehook__(unraisable)


if __name__ == "__main__":
    main()
