"""Models and losses."""

from holdfast.models.base import Architecture as Architecture
from holdfast.models.convolutional import ConvolutionalNetwork as ConvolutionalNetwork
from holdfast.models.convolutional import ResidualNetwork as ResidualNetwork
from holdfast.models.imported import ImportedModel as ImportedModel
from holdfast.models.linear import LogisticRegression as LogisticRegression
from holdfast.models.linear import SoftmaxRegression as SoftmaxRegression
from holdfast.models.losses import LOSSES as LOSSES
from holdfast.models.losses import CrossEntropy as CrossEntropy
from holdfast.models.losses import HalfNorm as HalfNorm
from holdfast.models.losses import HalfSquares as HalfSquares
from holdfast.models.losses import Logistic as Logistic
from holdfast.models.losses import Loss as Loss
from holdfast.models.perceptron import MultilayerPerceptron as MultilayerPerceptron
from holdfast.models.quadratic import Quadratic as Quadratic
from holdfast.models.recurrent import GatedRecurrent as GatedRecurrent
from holdfast.models.recurrent import LongShortTermMemory as LongShortTermMemory
from holdfast.models.registry import MODELS as MODELS
from holdfast.models.remote import RemoteModel as RemoteModel
