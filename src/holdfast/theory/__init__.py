"""The theorems, executable: formulas, records, planner; and how to measure the constants they ask for."""
