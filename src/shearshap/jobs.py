"""The old name of `shearshap.apps.jobs`."""

raise ImportError("shearshap.jobs is shearshap.apps.jobs now: from shearshap.apps.jobs import Job")
