"""Progress bars: by default in a terminal, after two seconds."""

from typing import Any

from tqdm import tqdm


def progress_bar(progress: bool | None, **options: Any) -> Any:
    """Return tqdm's bar, with options of its own.

    `progress` says when it is shown. True: at once; False: never; None: in a terminal, after two
    seconds.
    """
    disabled = None if progress is None else not progress
    delay = 0 if progress else 2
    return tqdm(disable=disabled, delay=delay, **options)
