"""Everything that a rule or an attack of one's own keeps and breaks, in words: all of it, not only the first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, final

from steadfed._core.own_code import loaded
from steadfed._core.wording import harmless, plural
from steadfed.aggregators import RULES, Aggregator, Claim, ImportedRule
from steadfed.attacks import ATTACKS, Attack, ImportedAttack
from steadfed.errors import ParameterError
from steadfed.testing import attack_contract, contract

__all__ = ["CLAIM_CHECKS", "ContractReport", "check_contract"]


def __dir__() -> list[str]:
    return __all__


_LONGEST = 240
"""Letters of a reason."""
CLAIM_CHECKS: Mapping[Claim, contract.Check] = MappingProxyType(
    {
        Claim.PERMUTATION: contract.check_permutation,
        Claim.TRANSLATION: contract.check_translation,
        Claim.SCALING: contract.check_scaling,
        Claim.ROTATION: contract.check_rotation,
        Claim.HULL: contract.check_inside_hull,
        Claim.IDEMPOTENCE: contract.check_equal_rows,
        Claim.LINEARITY: contract.check_linearity,
    }
)
"""What looks whether a rule keeps what most rules keep."""


@final
@dataclass(frozen=True, kw_only=True)
class ContractReport:
    """What came of looking; printed, it is sentences."""

    name: str
    """What was looked at."""
    kept: tuple[str, ...]
    """The checks that it passed."""
    broken: Mapping[str, str]
    """Those that it did not pass, and why."""
    also: tuple[str, ...] = ()
    """Of a plain function, which claims nothing: what it keeps of that which most rules keep, as was measured."""
    but_not: Mapping[str, str] = field(default_factory=dict)
    """And what it does not keep."""

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        number = len(self.kept) + len(self.broken)
        if not self.broken:
            yield f"{self.name} keeps the contract: {plural(number, 'check')} passed"
        else:
            yield f"{self.name} breaks the contract in {len(self.broken)} of {plural(number, 'check')}"
            yield from (f"  {', '.join(names)}: {why}" for why, names in _by_reason(self.broken).items())
        if self.also:
            yield f"  of what most rules keep, it keeps: {'; '.join(self.also)}"
        if self.but_not:
            yield "  and, as far as these updates show, does not keep:"
            yield from (f"    {', '.join(names)}: {why}" for why, names in _by_reason(self.but_not).items())


def _by_reason(broken: Mapping[str, str]) -> dict[str, list[str]]:
    """Return what was not kept, each reason once and in one line."""
    found: dict[str, list[str]] = {}
    for name, why in broken.items():
        found.setdefault(harmless(" ".join(why.split()), limit=_LONGEST), []).append(name)
    return found


def check_contract(own: Any, *, kind: Literal["rule", "attack"] | None = None, **parameters: Any) -> ContractReport:
    """Run every check on a rule or an attack, and say in words what it keeps; raise if it breaks anything.

    >>> print(check_contract(lambda updates: updates.mean(0)))  # doctest: +ELLIPSIS
    steadfed.testing.own:<lambda> keeps the contract: 9 checks passed
      of what most rules keep, it keeps: reordering clients ...; the update is the weighted sum of the rows

    Args:
        own: an `Aggregator` or an `Attack`; a function, a class, or the import path of one.
        kind: what a function or an import path is; a rule, unless a class says otherwise.
        parameters: what it is given, as in a configuration: arguments, and for a rule num_byzantine.

    Raises:
        AssertionError: something is broken; the message lists everything that is.
        ParameterError: it cannot be called at all.
    """
    value = _built(own, kind, parameters)
    report = _look_at_attack(value) if isinstance(value, Attack) else _look_at_rule(value)
    if report.broken:
        raise AssertionError(str(report))
    return report


def _built(own: Any, kind: str | None, parameters: Mapping[str, Any]) -> Aggregator | Attack:
    """Return the rule or the attack that is meant, its code loaded."""
    if isinstance(own, (Aggregator, Attack)):
        if parameters:
            raise ParameterError(f"{own!r} has its parameters already, got {sorted(parameters)} besides")
        return loaded(own)
    if isinstance(own, type) and issubclass(own, (Aggregator, Attack)):
        return own(**parameters)
    named = ATTACKS.of(own, written=False) if kind == "attack" else RULES.of(own, written=False)
    if not isinstance(named, (Aggregator, Attack)):
        raise ParameterError(f"expected a rule or an attack, a function, or its import path; got {own!r:.200}")
    if isinstance(named, (ImportedRule, ImportedAttack)) and parameters:
        named = _with_parameters(named, parameters)
    return loaded(named)


def _with_parameters(named: ImportedRule | ImportedAttack, parameters: Mapping[str, Any]) -> Aggregator | Attack:
    given = type(named)(import_path=named.import_path, **parameters)
    return given if named.given is None else given.holding(named.given)


def _look_at_rule(rule: Aggregator) -> ContractReport:
    updates = contract.example_updates(rule)
    claimed = isinstance(rule, ImportedRule)
    checks = {name: each for name, each in contract.CHECKS.items() if not claimed or each not in _ASKED_OF_CLAIMS}
    broken = _broken({name: partial(each, rule, updates) for name, each in checks.items()})
    more: dict[str, str] = {}
    if isinstance(rule, ImportedRule):
        if broken:
            return _report(rule.import_path, checks, broken)
        claiming = rule.claiming(frozenset(Claim))
        more = _broken({str(k.value): partial(each, claiming, updates) for k, each in CLAIM_CHECKS.items()})
        also = tuple(claim.value for claim in CLAIM_CHECKS if claim.value not in more)
        return _report(rule.import_path, checks, broken, also=also, but_not=more)
    return _report(repr(rule), checks, broken)


_ASKED_OF_CLAIMS = frozenset(CLAIM_CHECKS.values())


def _look_at_attack(attack: Attack) -> ContractReport:
    view = attack_contract.example_adversary_view()
    checks = attack_contract.CHECKS
    broken = _broken({name: partial(each, attack, view) for name, each in checks.items()})
    return _report(attack.import_path if isinstance(attack, ImportedAttack) else repr(attack), checks, broken)


def _broken(checks: Mapping[str, Callable[[], None]]) -> dict[str, str]:
    """Run checks, and return why those failed that did."""
    found: dict[str, str] = {}
    for name, check in checks.items():
        try:
            check()
        except AssertionError as error:
            found[name] = str(error)
        except Exception as error:  # noqa: BLE001  code of the user's own may raise anything
            found[name] = f"{type(error).__name__}: {error}"
    return found


def _report(name: str, checks: Mapping[str, object], broken: Mapping[str, str], **more: Any) -> ContractReport:
    kept = tuple(each for each in checks if each not in broken)
    return ContractReport(name=name, kept=kept, broken=broken, **more)
