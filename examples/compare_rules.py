"""Rules against attacks, on digits: final test accuracies. `python examples/compare_rules.py [FOLDER] [ROUNDS]`.

`steadfed show FOLDER` shows the runs side by side afterwards.
"""

import sys
from pathlib import Path

from steadfed.aggregators import RULES
from steadfed.attacks import ATTACKS, FractionMembers
from steadfed.runs import Run
from steadfed.simulation import RunConfig

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/rules")
rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 60
rules = {"mean": {}, "median": {}, "nnm+krum": {"num_byzantine": 12}, "rage": {"num_byzantine": 12}}
attacks = {"none": {}, "alie": {"z": 1.5}, "sign-flip": {}, "ipm": {"epsilon": 4.0}}

print(f"{'':10}" + "".join(f"{name:>12}" for name in attacks))
for rule, bound in rules.items():
    print(f"{rule:10}", end="")
    for attack, strength in attacks.items():
        config = RunConfig(
            rounds=rounds,
            lr=0.3,
            batch_size=4,
            rule=RULES.build(rule, **bound),
            byzantine=FractionMembers(fraction=0.2),
            attack=ATTACKS.build(attack, **strength),
        )
        *_, last = Run.start(config, folder / f"{rule}-{attack}", jobs=2).play()
        print(f"{last.test_accuracy:12.1%}", end="", flush=True)
    print()
