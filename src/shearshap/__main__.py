"""The program `shear`, which Ctrl-C ends without a traceback, from its first import on."""

import _thread
import os
import signal
import sys
from importlib.util import find_spec
from types import FrameType
from typing import Any

_interrupted = False


def main() -> None:
    """Run the command line; exit with 130 if it was interrupted."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is to be ignored
        signal.signal(signal.SIGINT, _interrupt)
        sys.unraisablehook = _unraisable
    if find_spec("typer") is None:
        sys.exit("error: the command shear needs typer: pip install 'shearshap[explain]'")
    try:
        from shearshap.cli import app

        app(prog_name="shear")
    except BaseException as error:
        # in the middle of an import, an interrupt may come out as any error
        if not _interrupted or (isinstance(error, SystemExit) and not error.code):
            raise
        command = sys.modules.get("shearshap.cli")
        if not getattr(command, "stop_reported", False):
            sys.stderr.write("stopped; no partial file was left\n")
        # not sys.exit: Python would end by the signal if code within exec() was interrupted
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(130)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is said, and Python takes a while to end


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    global _interrupted
    _interrupted = True
    raise KeyboardInterrupt


def _unraisable(unraisable: Any) -> None:
    """Raise an interrupt again that came where nothing can be raised, such as in a callback."""
    if unraisable.exc_type is KeyboardInterrupt:
        _thread.interrupt_main()
    else:
        sys.__unraisablehook__(unraisable)


if __name__ == "__main__":
    main()
