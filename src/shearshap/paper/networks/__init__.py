"""The paper's networks: built, trained, saved, loaded, and opened as classifiers of raw rows."""

from shearshap.paper.networks.architectures import MLP, Config, DeepFM, build, config_for
from shearshap.paper.networks.classifier import NetworkClassifier, open_folder
from shearshap.paper.networks.recipes import RECIPES, Recipe, recipe_of
from shearshap.paper.networks.saved import load, save
from shearshap.paper.networks.training import Trained, accuracy, train, train_until

__all__ = [
    "MLP",
    "RECIPES",
    "Config",
    "DeepFM",
    "NetworkClassifier",
    "Recipe",
    "Trained",
    "accuracy",
    "build",
    "config_for",
    "load",
    "open_folder",
    "recipe_of",
    "save",
    "train",
    "train_until",
]
