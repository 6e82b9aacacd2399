"""Runs against the theorems: what is guaranteed before a run, and whether it held after it."""

from holdfast.certification.planning import Plan, Wishes, plan, plan_numbers

__all__ = ["Plan", "Wishes", "plan", "plan_numbers"]
