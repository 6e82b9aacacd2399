"""Runs against the theorems: what is guaranteed before a run, and whether it held after it."""

from holdfast.certification.certifying import Certification, certify
from holdfast.certification.deployments import RecordsCertification, certify_records
from holdfast.certification.planning import Plan, Wishes, plan, plan_numbers
from holdfast.certification.verdicts import Outcome, Subject, Verdict

__all__ = [
    "Certification",
    "Outcome",
    "Plan",
    "RecordsCertification",
    "Subject",
    "Verdict",
    "Wishes",
    "certify",
    "certify_records",
    "plan",
    "plan_numbers",
]
