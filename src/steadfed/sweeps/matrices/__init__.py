"""The gauntlet: every rule against every attack, on matrices, without training."""

from steadfed.sweeps.matrices._gauntlet import run as run
from steadfed.sweeps.matrices._grid import (
    GRIDS as GRIDS,
    GauntletCell as GauntletCell,
    GauntletGrid as GauntletGrid,
)
from steadfed.sweeps.matrices._populations import (
    Population as Population,
    Scene as Scene,
    population as population,
    scene as scene,
    under_attack as under_attack,
)
from steadfed.sweeps.matrices._ranking import (
    GauntletRank as GauntletRank,
    lost_duels as lost_duels,
    ranking as ranking,
)
from steadfed.sweeps.matrices._record import GauntletRecord as GauntletRecord, read_records as read_records
