"""The paper's networks: built, trained, saved, loaded, and opened as classifiers of raw rows."""

from shearshap_lab.networks.classifier import NetworkClassifier, open_folder
from shearshap_lab.networks.training import (
    MLP,
    RECIPES,
    Config,
    DeepFM,
    Recipe,
    Trained,
    accuracy,
    build,
    config_for,
    load,
    recipe_of,
    save,
    train,
)

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
