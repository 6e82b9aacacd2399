"""Models and losses."""

from steadfed.models._base import Architecture as Architecture
from steadfed.models._convolutional import (
    ConvolutionalNetwork as ConvolutionalNetwork,
    ResidualNetwork as ResidualNetwork,
)
from steadfed.models._imported import ImportedModel as ImportedModel
from steadfed.models._linear import LogisticRegression as LogisticRegression, SoftmaxRegression as SoftmaxRegression
from steadfed.models._losses import (
    LOSSES as LOSSES,
    CrossEntropy as CrossEntropy,
    HalfNorm as HalfNorm,
    HalfSquares as HalfSquares,
    Huber as Huber,
    Logistic as Logistic,
    Loss as Loss,
)
from steadfed.models._perceptron import MultilayerPerceptron as MultilayerPerceptron
from steadfed.models._quadratic import Quadratic as Quadratic
from steadfed.models._recurrent import GatedRecurrent as GatedRecurrent, LongShortTermMemory as LongShortTermMemory
from steadfed.models._registry import MODELS as MODELS
from steadfed.models._regression import (
    LinearRegression as LinearRegression,
    PerceptronRegression as PerceptronRegression,
    Regressor as Regressor,
)
from steadfed.models._remote import RemoteModel as RemoteModel
