"""What clients are asked for in a round: the whole model, or k coordinates of it that both sides draw from a seed."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from flwr.app import ArrayRecord, RecordDict

from steadfed._core.coordinates import NUMBER, PARAMETERS, SEED, SEED_BITS, seed_of_round
from steadfed._core.ranges import check_whole
from steadfed.errors import ParameterError
from steadfed.flower._records import RecordNumbers, layout_of, record_of
from steadfed.server._coordinates import Places, part_of, places_of
from steadfed.server._record import RoundCoordinates
from steadfed.states._layout import BUFFERS, ModelLayout

if TYPE_CHECKING:
    from steadfed.simulation._compression import Compression


@final
@dataclass(frozen=True, eq=False)
class AskedFor:
    """What every client of a round is to send."""

    layout: ModelLayout
    """What a reply looks like."""
    coordinates: RoundCoordinates | None = None
    """How the coordinates are drawn; None if the whole model is asked for."""
    places: Places = None
    """Which coordinates of the model these are; None for all."""

    @classmethod
    def drawn(cls, layout: ModelLayout, compression: Compression, round: int, seed: int | None) -> AskedFor:
        """Return what a server asks for in a round.

        Args:
            layout: of the model.
            compression: how much of it.
            round: the number of the round, from 0.
            seed: the root that rounds are drawn from as in the simulator; None to draw from the system's randomness
                when the round begins, so that nobody can know the coordinates of later rounds.
        """
        number = compression.number(layout.dim)
        if number == layout.dim:
            return cls(layout)
        own = secrets.randbits(SEED_BITS) if seed is None else seed_of_round(seed, round)
        return cls._of(layout, RoundCoordinates(number=number, seed=own))

    @classmethod
    def told(cls, content: RecordDict, layout: ModelLayout) -> AskedFor:
        """Return what a message of the server asks a client for.

        Raises:
            ParameterError: a number of its config is out of its range, or the model has not as many parameters.
        """
        config = next((each for each in content.config_records.values() if SEED in each), None)
        if config is None:
            return cls(layout)
        if config.get(PARAMETERS) != layout.dim:
            raise ParameterError(
                f"the server's model has {config.get(PARAMETERS)!r} parameters, and {layout.dim} were found in its "
                f"arrays; say which arrays are buffers as the server does: train_reply(..., buffers=[...])"
            )
        number = check_whole(repr(NUMBER), config.get(NUMBER), most=layout.dim)
        seed = check_whole(repr(SEED), config[SEED], least=0, most=2**SEED_BITS - 1)
        return cls._of(layout, RoundCoordinates(number=number, seed=seed))

    @classmethod
    def _of(cls, layout: ModelLayout, coordinates: RoundCoordinates) -> AskedFor:
        return cls(layout.of_coordinates(coordinates.number), coordinates, places_of(coordinates, layout.dim))

    def config(self, dim: int) -> dict[str, int]:
        """Return what clients must be told; d for them to find that they count as the server does."""
        if self.coordinates is None:
            return {}
        return {NUMBER: self.coordinates.number, SEED: self.coordinates.seed, PARAMETERS: dim}


def arrays_asked_for(content: RecordDict, arrays: ArrayRecord, buffers: Sequence[str] | None) -> ArrayRecord:
    """Return what a client sends of its arrays: all, or the coordinates that a message asks for, and the buffers."""
    received = next(iter(content.array_records.values()), None)
    if received is None:
        raise ParameterError(
            f"a message that asks for coordinates must hold the model, got {list(content) or 'nothing'}"
        )
    layout = layout_of(received, BUFFERS if buffers is None else buffers)  # the client's own may hold NaN
    asked = AskedFor.told(content, layout)
    part = part_of(layout.parameters_of(RecordNumbers(arrays)), asked.places)
    return record_of(asked.layout.to_arrays(part, layout.buffers_of(RecordNumbers(arrays))))
