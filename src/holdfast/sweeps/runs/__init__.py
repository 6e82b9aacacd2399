"""Comparisons: rules against attacks over a grid of settings, with training, side by side, once each."""
