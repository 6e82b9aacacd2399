"""Runs against the theorems: what is guaranteed before a run, and whether it held after it."""

from holdfast.certification.certifying import Certification, certify
from holdfast.certification.planning import Plan, Wishes, plan, plan_numbers
from holdfast.certification.verdicts import Outcome, Subject, Verdict

__all__ = ["Certification", "Outcome", "Plan", "Subject", "Verdict", "Wishes", "certify", "plan", "plan_numbers"]
