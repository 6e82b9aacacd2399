"""One line of the result: a rule on a matrix. Written as JSON Lines, so that a run can be stopped and continued."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from steadfed.errors import ParameterError
from steadfed.sweeps._measure import Measure
from steadfed.sweeps._ranking import TrialSetting
from steadfed.sweeps._store import Row, key_of, read_rows
from steadfed.sweeps.matrices._grid import GauntletMatrix


@dataclass(frozen=True, kw_only=True)
class GauntletRecord:
    """What a rule made of a matrix."""

    rule: str
    attack: str
    model: str
    cohort_size: int
    dim: int
    num_byzantine: int
    seed: int
    error: float | None = None
    """‖update − honest mean‖ / (σ₀ √ε); None if the rule refused."""
    trace_coefficient: float | None = None
    """‖update − honest mean‖² over the trace of the honest covariance; None also in results that did not measure it."""
    honest_weight_lost: float | None = None
    """Share of the honest rows' weight that was taken from them."""
    byzantine_weight: float | None = None
    """Share of the update that comes from forged rows."""
    assumption_violated: bool | None = None
    stop: str | None = None
    refused: str | None = None
    """Why the rule would not aggregate these rows."""
    seconds: float | None = None
    """Time of the aggregation; the only field that differs from run to run."""
    code: str | None = None
    """A hash of the user's own code that the rule and the attack are; None if neither is: see `code_of`."""

    @property
    def key(self) -> str:
        """The identity of the matrix and the rule."""
        return record_key(self.rule, self.matrix, self.code)

    @property
    def matrix(self) -> GauntletMatrix:
        """What the rule was tried on."""
        return GauntletMatrix(**{field.name: getattr(self, field.name) for field in fields(GauntletMatrix)})

    @property
    def setting(self) -> TrialSetting:
        """K, d, f and the model of honest rows."""
        return tuple((key, getattr(self, key)) for key in ("cohort_size", "dim", "num_byzantine", "model"))

    @property
    def measure(self) -> Measure:
        """What the value means."""
        return Measure(name="error", title="error, negative", is_share=False)

    @property
    def value(self) -> float | None:
        """The error, negative: the larger the better."""
        return None if self.error is None else -self.error

    @property
    def spectral_coefficient(self) -> float | None:
        """‖update − honest mean‖² over λ_max of the honest covariance: error² ε, as σ₀² is that λ_max."""
        share = (self.num_byzantine or self.cohort_size) / self.cohort_size  # without attack the unit is σ₀ itself
        return None if self.error is None else self.error * self.error * share

    def row(self) -> Row:
        """Return what there is of the record, as a line of the result."""
        return {key: value for key, value in asdict(self).items() if value is not None}


def record_key(rule: str, matrix: GauntletMatrix, code: str | None) -> str:
    """Return the identity of a rule's record on a matrix; with the user's own code, if there is some."""
    return key_of(rule, asdict(matrix), *([] if code is None else [code]))


def read_records(path: Path) -> list[GauntletRecord]:
    """Return the records of a file, each matrix and rule once; a last line that was torn by a crash is left out.

    Of a rule or an attack of the user's own that was changed in between, the last results are taken.

    Raises:
        ParameterError: the file cannot be read, or holds something else.
    """
    records = [_record(row, f"{path}:{number}") for number, row in enumerate(read_rows(path), 1)]
    return list({record_key(record.rule, record.matrix, None): record for record in records}.values())


def _record(row: Row, where: str) -> GauntletRecord:
    """Return the record of a line; whatever else a line holds would fail where it is ranked."""
    try:
        return _CHECKED.validate_python(GauntletRecord(**row).__dict__)
    except TypeError as error:
        raise ParameterError(f"{where} is no record of the gauntlet: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        raise ParameterError(f"{where} is no record of the gauntlet: {first['loc'][0]}: {first['msg']}") from None


_CHECKED = TypeAdapter(GauntletRecord)
