"""The old name of `shearshap.apps.serve`."""

raise ImportError(
    "shearshap.serve is shearshap.apps.serve now: from shearshap.apps.serve import Service"
)
