"""Models and losses."""

from holdfast.models._base import Architecture as Architecture
from holdfast.models._convolutional import (
    ConvolutionalNetwork as ConvolutionalNetwork,
    ResidualNetwork as ResidualNetwork,
)
from holdfast.models._imported import ImportedModel as ImportedModel
from holdfast.models._linear import LogisticRegression as LogisticRegression, SoftmaxRegression as SoftmaxRegression
from holdfast.models._losses import (
    LOSSES as LOSSES,
    CrossEntropy as CrossEntropy,
    HalfNorm as HalfNorm,
    HalfSquares as HalfSquares,
    Logistic as Logistic,
    Loss as Loss,
)
from holdfast.models._perceptron import MultilayerPerceptron as MultilayerPerceptron
from holdfast.models._quadratic import Quadratic as Quadratic
from holdfast.models._recurrent import GatedRecurrent as GatedRecurrent, LongShortTermMemory as LongShortTermMemory
from holdfast.models._registry import MODELS as MODELS
from holdfast.models._remote import RemoteModel as RemoteModel
