"""Runs for other people's tools: TensorBoard and MLflow."""

from steadfed.exports._mlflow import to_mlflow
from steadfed.exports._tensorboard import to_tensorboard

__all__ = ["to_mlflow", "to_tensorboard"]
