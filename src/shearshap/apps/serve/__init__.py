"""A model, its background and rows as a service: what `shear serve` starts.

server.py       reads files, prepares the model, and listens on a port
    ▼
guard.py        every request: hosts, tokens, limits, counts
    ▼
app.py          the page, the addresses, and what each answers
    │           schemas.py   requests and answers, by the columns of the rows loaded
    ▼
batching.py     requests that come together are explained as one block
    ▼
prepared.py     a model that is loaded, checked and calibrated once
"""

from shearshap.apps.serve.server import Limits, Service

__all__ = ["Limits", "Service"]
