"""All benchmarks of the Flower strategies: ``python -m benchmarks.flower``, or one of them by name."""

import sys

from benchmarks.flower import bad_client, cost, deployed

PARTS = {"bad-client": bad_client.main, "deployed": deployed.main, "cost": cost.main}


def main() -> None:
    """Run the part that is named, or all."""
    names = sys.argv[1:2] or list(PARTS)
    if names[0] not in PARTS:
        sys.exit(f"unknown benchmark {names[0]!r}; known: {', '.join(PARTS)}")
    del sys.argv[1:2]
    for name in names:
        PARTS[name]()


if __name__ == "__main__":
    main()
