"""The gauntlet: every rule against every attack, on matrices, without training."""

from steadfed.sweeps.matrices._gauntlet import run as run
from steadfed.sweeps.matrices._grid import (
    GRIDS as GRIDS,
    GauntletGrid as GauntletGrid,
    GauntletMatrix as GauntletMatrix,
)
from steadfed.sweeps.matrices._populations import (
    AttackedPopulation as AttackedPopulation,
    Population as Population,
    attacked_population as attacked_population,
    population as population,
    under_attack as under_attack,
)
from steadfed.sweeps.matrices._ranking import (
    GauntletRank as GauntletRank,
    lost_duels as lost_duels,
    ranking as ranking,
)
from steadfed.sweeps.matrices._record import GauntletRecord as GauntletRecord, read_records as read_records
