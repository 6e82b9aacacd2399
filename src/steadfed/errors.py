"""Every error that steadfed raises on purpose.

    SteadfedError
    ├── ParameterError        (ValueError)   a value object was built with a parameter outside its range
    ├── UnknownNameError      (KeyError)     a rule or a key that does not exist; names the nearest one that does
    ├── DataError             (ValueError)   a data set cannot be used as asked
    │   ├── MissingDataError                 its files are nowhere; says where was looked and what gets them
    │   └── CorruptDataError                 a file has the wrong checksum or cannot be read as what it should be
    ├── RunError              (RuntimeError) a run cannot go on; says what is saved and how to continue
    │   ├── CorruptRunError                  the folder of a run does not hold what a run writes
    │   └── LinkError                        the SuperLink fails; a round is skipped for it, many in a row end the run
    ├── SignatureError        (ValueError)   a statement is not signed by whom it has to be, or is no statement
    │   └── OrderError                       a message is not an order that the federation's server gave this node, now
    └── InputError            (ValueError)   the updates cannot be aggregated
        ├── ShapeError                       not a K x d matrix, ragged rows, no rows, no columns
        ├── DtypeError                       neither float32 nor float64
        ├── CohortTooSmallError              fewer rows than the rule needs for the assumed number of Byzantine clients
        ├── NoUsableRowError                 every row has NaN, Inf or values whose square overflows
        ├── TooManySubsetsError              the rule is exact for few rows only, and these are too many
        ├── OwnCodeError                     a rule or an attack of the user's own failed, or returned what is no update
        ├── MissingKnowledgeError            the rule or attack needs to know something it was not told
        └── ReplyError                       a client's reply is not a model; never leaves the round, which records it

A single bad row is not an error: it is removed and reported in the `Aggregation`.
Each message says what is wrong, shows the value and says what is allowed.
"""

from __future__ import annotations

__all__ = [
    "CohortTooSmallError",
    "CorruptDataError",
    "CorruptRunError",
    "DataError",
    "DtypeError",
    "InputError",
    "LinkError",
    "MissingDataError",
    "MissingKnowledgeError",
    "NoUsableRowError",
    "OrderError",
    "OwnCodeError",
    "ParameterError",
    "ReplyError",
    "RunError",
    "ShapeError",
    "SignatureError",
    "SteadfedError",
    "TooManySubsetsError",
    "UnknownNameError",
]


def __dir__() -> list[str]:
    return __all__


class SteadfedError(Exception):
    """Base class of everything that steadfed raises on purpose."""


class ParameterError(SteadfedError, ValueError):
    """A value object was built with a parameter outside its range."""


class UnknownNameError(SteadfedError, KeyError):
    """A name that is not in a registry."""

    def __str__(self) -> str:
        """Return the message itself; KeyError would show its repr."""
        return str(self.args[0])


class DataError(SteadfedError, ValueError):
    """A data set cannot be used as asked."""


class MissingDataError(DataError):
    """The files of a data set are in none of the places that were looked at."""


class CorruptDataError(DataError):
    """A file has the wrong checksum or cannot be read as what it should be."""


class RunError(SteadfedError, RuntimeError):
    """A run cannot go on."""


class CorruptRunError(RunError):
    """The folder of a run does not hold what a run writes."""


class LinkError(RunError):
    """The SuperLink of a deployment fails, or is away."""


class SignatureError(SteadfedError, ValueError):
    """A statement is not signed by whom it has to be signed by, or is no statement at all."""


class OrderError(SignatureError):
    """A message is not an order that the federation's server gave this node for now."""


class InputError(SteadfedError, ValueError):
    """The updates cannot be aggregated."""


class ShapeError(InputError):
    """The updates are not a K x d matrix with K >= 1 and d >= 1."""


class DtypeError(InputError):
    """The updates are neither float32 nor float64."""


class CohortTooSmallError(InputError):
    """There are fewer updates than the rule needs for the assumed number of Byzantine clients."""


class NoUsableRowError(InputError):
    """No update is finite with a finite squared norm."""


class TooManySubsetsError(InputError):
    """A rule that searches subsets exactly would have to look at too many of them."""


class OwnCodeError(InputError):
    """A rule or an attack of the user's own failed on these updates, or returned what is no update."""


class MissingKnowledgeError(InputError):
    """A rule or an attack needs to know something that its view does not grant."""


class ReplyError(InputError):
    """A client's reply is not a model like the one it was sent."""

    def __init__(self, fault: str, detail: str) -> None:
        super().__init__(detail)
        self.fault = fault
        """What is wrong, as a word."""
