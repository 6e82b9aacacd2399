"""Tools for testing rules and attacks, one's own among them: what they must keep, told in words.

``check_contract("my_rules:mine", num_byzantine=3)`` says what a rule of one's own keeps and breaks; ``contract`` and
``attack_contract`` hold the checks one by one, for test suites.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steadfed._core.lazy import lazy_names

if TYPE_CHECKING:
    from steadfed.testing.own import ContractReport, check_contract
else:
    __getattr__, __dir__ = lazy_names(
        __name__, {"own": ("ContractReport", "check_contract")}, always=("attack_contract", "contract")
    )

__all__ = ["ContractReport", "check_contract"]
