"""What is written down about a run: records of rounds, checkpoints, the folder."""
