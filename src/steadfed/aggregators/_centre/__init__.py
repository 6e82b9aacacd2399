"""Rules that look for a central point."""
