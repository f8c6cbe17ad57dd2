"""`shear importance`: from the files of a model and of labelled rows to the features it needs."""

from shearshap import __version__
from shearshap.apps.jobs.job import files_read
from shearshap.apps.jobs.models import ModelSource, exits_as_errors, restore_cwd
from shearshap.apps.jobs.options import Options, device_of, errors_with_files, parse_devices
from shearshap.apps.jobs.places import is_folder, written_whole
from shearshap.apps.jobs.plan import Plan, open_files
from shearshap.apps.jobs.tables import check_place, check_suffix, write
from shearshap.apps.jobs.urls import Place, place
from shearshap.data.background import is_default
from shearshap.engine.importance import importance
from shearshap.errors import InputError
from shearshap.result.importance import LossImportance

DRAWN = (".png", ".svg")


def feature_importance(
    job: Options,
    *,
    level: float = 0.95,
    deadline: float | None = None,
    table: str | Place | None = None,
    plot: str | Place | None = None,
) -> LossImportance:
    """Return by how much each feature reduces the model's loss; see `shearshap.importance`.

    The job's `budget` and `tol` are those of all rows together. The result is written to the file
    `table`, .csv or .parquet, and drawn to the file `plot`, .png or .svg.
    """
    read = files_read(job)
    if is_folder(job.data):
        raise InputError(f"data: expected a file of labelled rows, got the folder {job.data}")
    if table is not None:
        table = place(table, "out")
        check_suffix(table)
        check_place(table, "importance", read, overwrite=job.overwrite)
    if plot is not None:
        plot = place(plot, "plot")
        if plot.suffix.lower() not in DRAWN:
            raise InputError(f"plot: expected a file that ends in {', '.join(DRAWN)}, got {plot}")
        check_place(plot, "plot", read, overwrite=job.overwrite)
    source = ModelSource(job.model, job.trust)
    try:
        with exits_as_errors(job.model_name), restore_cwd():
            plan = open_files(job, source.open())
            with errors_with_files(job.data, plan.background):
                needed = _importance(plan, level, deadline)
    finally:
        source.close()
    if table is not None:
        facts = {
            "version": __version__,
            "command": job.command,
            "loss": needed.loss_name,
            "background": needed.background,
        }
        write(needed.to_frame("pyarrow"), facts, table)
    if plot is not None:
        _draw(needed, plot)
    return needed


def _importance(plan: Plan, level: float, deadline: float | None) -> LossImportance:
    job = plan.job
    options = plan.explainer_options()
    del options["method"], options["semivalue"]
    if is_default(options["background"]):
        options["background"] = None  # all rows, and not a sample of them
    return importance(
        plan.model.model,
        plan.frame,
        plan.data[job.label].to_pandas(),
        **options,
        budget=job.budget,
        tol=job.tol,
        level=level,
        deadline=deadline,
        device=device_of(parse_devices(job.device), worker=0),
    )


def _draw(needed: LossImportance, path: Place) -> None:
    """Draw bars with intervals."""
    from matplotlib import pyplot as plt
    from matplotlib.figure import Figure

    from shearshap import plots

    figure = plots.bar(needed).figure
    assert isinstance(figure, Figure)
    with written_whole(path) as partial:
        figure.savefig(partial, format=path.suffix[1:].lower(), bbox_inches="tight")
    plt.close(figure)
