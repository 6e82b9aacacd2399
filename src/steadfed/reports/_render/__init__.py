"""How panels are drawn, one module for every medium."""
