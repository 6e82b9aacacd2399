"""Runs for other people's tools: TensorBoard and MLflow."""
