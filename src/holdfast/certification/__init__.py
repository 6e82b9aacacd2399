"""Runs against the theorems: what is guaranteed before a run, and whether it held after it."""

from holdfast.certification._certify import Certification, certify
from holdfast.certification._plan import Plan, PlanRequest, plan, plan_numbers
from holdfast.certification._verdicts import Outcome, Subject, Verdict

__all__ = [
    "Certification",
    "Outcome",
    "Plan",
    "PlanRequest",
    "Subject",
    "Verdict",
    "certify",
    "plan",
    "plan_numbers",
]
