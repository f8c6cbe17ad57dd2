"""Progress bars: in a terminal, after two seconds; at once where they are asked for."""

from typing import Any

from tqdm import tqdm


def progress_bar(progress: bool | None, **options: Any) -> Any:
    """Return tqdm's bar; `progress` None: in a terminal, True: at once, False: never. `options` are
    tqdm's own.
    """
    return tqdm(
        disable=None if progress is None else not progress, delay=0 if progress else 2, **options
    )
