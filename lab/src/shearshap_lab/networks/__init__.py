"""The paper's networks: built, trained, saved, loaded, and opened as classifiers of raw rows."""

from shearshap_lab.networks.architectures import MLP, Config, DeepFM, build, config_for
from shearshap_lab.networks.classifier import NetworkClassifier, open_folder
from shearshap_lab.networks.recipes import RECIPES, Recipe, recipe_of
from shearshap_lab.networks.saved import load, save
from shearshap_lab.networks.training import Trained, accuracy, train

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
]
