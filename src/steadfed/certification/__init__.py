"""Runs against the theorems: what is guaranteed before a run, and whether it held after it."""

from steadfed.certification._certify import Certification, certify, certify_records
from steadfed.certification._plan import Plan, PlanRequest, plan, plan_numbers
from steadfed.certification._verdicts import Outcome, Subject, Verdict

__all__ = [
    "Certification",
    "Outcome",
    "Plan",
    "PlanRequest",
    "Subject",
    "Verdict",
    "certify",
    "certify_records",
    "plan",
    "plan_numbers",
]
