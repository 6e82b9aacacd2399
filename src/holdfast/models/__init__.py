"""Models and losses."""

from holdfast.models.base import Architecture
from holdfast.models.convolutional import ConvolutionalNetwork, ResidualNetwork
from holdfast.models.imported import ImportedModel
from holdfast.models.linear import LogisticRegression, SoftmaxRegression
from holdfast.models.losses import LOSSES, CrossEntropy, HalfNorm, HalfSquares, Logistic, Loss
from holdfast.models.perceptron import MultilayerPerceptron
from holdfast.models.quadratic import Quadratic
from holdfast.models.recurrent import GatedRecurrent, LongShortTermMemory
from holdfast.models.registry import MODELS, build_model, model_from_table, model_name, model_table
from holdfast.models.remote import RemoteModel

__all__ = [
    "LOSSES",
    "MODELS",
    "Architecture",
    "ConvolutionalNetwork",
    "CrossEntropy",
    "GatedRecurrent",
    "HalfNorm",
    "HalfSquares",
    "ImportedModel",
    "Logistic",
    "LogisticRegression",
    "LongShortTermMemory",
    "Loss",
    "MultilayerPerceptron",
    "Quadratic",
    "RemoteModel",
    "ResidualNetwork",
    "SoftmaxRegression",
    "build_model",
    "model_from_table",
    "model_name",
    "model_table",
]
