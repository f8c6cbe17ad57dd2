"""The paper's networks: built, trained, saved and loaded."""

from shearshap.models.files import load, save
from shearshap.models.networks import MLP, Config, DeepFM, build, config_for
from shearshap.models.training import Trained, accuracy, train

__all__ = ["MLP", "Config", "DeepFM", "Trained", "accuracy", "build", "config_for", "load", "save", "train"]
