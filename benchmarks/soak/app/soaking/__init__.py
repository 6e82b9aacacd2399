"""The app of the soak test."""
