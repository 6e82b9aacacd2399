"""Sections of a report: each a function of some histories, which says in words what it cannot show."""

from __future__ import annotations
