"""The old name of `shearshap.apps.report`."""

raise ImportError(
    "shearshap.report is shearshap.apps.report now: from shearshap.apps.report import Page"
)
