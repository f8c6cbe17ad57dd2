"""The paper's networks: built, trained, saved and loaded."""

from shearshap.paper.networks.architectures import MLP, Config, DeepFM, build, config_for
from shearshap.paper.networks.saved import load, save
from shearshap.paper.networks.training import Trained, accuracy, train

__all__ = [
    "MLP",
    "Config",
    "DeepFM",
    "Trained",
    "accuracy",
    "build",
    "config_for",
    "load",
    "save",
    "train",
]
