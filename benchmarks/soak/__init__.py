"""A federation that is disturbed for half an hour and must lose nothing: ``make soak``."""
