"""A model, its background and rows as a service: what `shear serve` starts.

    page and API        app.py          the addresses, and what each answers
        │               schemas.py      what goes in and out, for people and for OpenAPI
        │               live_page.py    the page: pick a row, change it, see its values move
        │               guard.py        tokens, hosts, sizes of bodies, headers, counts
        │               limits.py       how much a request may ask for, and refusals
        │               monitoring.py   what happened so far, for Prometheus
        ▼
    requests            batching.py     requests that come together are explained as one block
        ▼
    rows                features.py     cells of JSON to the columns that the model takes
        ▼
    explanations        prepared.py     a model that is loaded, checked and calibrated once

`server.py` starts all of it.
"""

from shearshap.serve.limits import Limits
from shearshap.serve.server import Service

__all__ = ["Limits", "Service"]
