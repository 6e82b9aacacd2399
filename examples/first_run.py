"""A first run in ten lines: RAGE against a fifth of Byzantine clients. `python examples/first_run.py [FOLDER]`."""

import sys

from steadfed.aggregators import Rage
from steadfed.attacks import ALittleIsEnough, FractionMembers
from steadfed.runs import Run
from steadfed.simulation import RunConfig

hostile = {"byzantine": FractionMembers(fraction=0.2), "attack": ALittleIsEnough(z=1.5)}
config = RunConfig(rounds=30, lr=0.3, batch_size=4, rule=Rage(byzantine_fraction=0.3), **hostile)
run = Run.start(config, sys.argv[1] if len(sys.argv) > 1 else "runs/first")
for record in run.play():
    print(f"round {record.round + 1}: accuracy {record.test_accuracy:.1%}, removed {len(record.removed)} clients")
print(run.folder.path, run.folder.summary()["last"])
