"""Metrics: how good predictions are, in one number, beside accuracy and loss."""

from steadfed.metrics._attack import (
    ATTACK_SUCCESS as ATTACK_SUCCESS,
    ATTACKED as ATTACKED,
    AttackSuccessRate as AttackSuccessRate,
)
from steadfed.metrics._base import (
    Metric as Metric,
    Predictions as Predictions,
    Task as Task,
)
from steadfed.metrics._classification import (
    Accuracy as Accuracy,
    AreaUnderRoc as AreaUnderRoc,
    AveragePrecision as AveragePrecision,
    BalancedAccuracy as BalancedAccuracy,
    F1Score as F1Score,
    MacroF1Score as MacroF1Score,
    Precision as Precision,
    Recall as Recall,
    WorstClassRecall as WorstClassRecall,
)
from steadfed.metrics._clients import (
    ClientMean as ClientMean,
    ClientWorst as ClientWorst,
    ClientWorstTenth as ClientWorstTenth,
    OverClients as OverClients,
)
from steadfed.metrics._imported import ImportedMetric as ImportedMetric
from steadfed.metrics._loss import MeanLoss as MeanLoss
from steadfed.metrics._naming import (
    TABLE as TABLE,
    USUAL as USUAL,
    asked_metrics as asked_metrics,
    checked_metrics as checked_metrics,
    column_of as column_of,
    is_usual as is_usual,
    known_metric as known_metric,
    metric_named as metric_named,
    name_of as name_of,
)
from steadfed.metrics._registry import METRICS as METRICS
from steadfed.metrics._regression import (
    MeanAbsoluteError as MeanAbsoluteError,
    RootMeanSquaredError as RootMeanSquaredError,
    RSquared as RSquared,
)
