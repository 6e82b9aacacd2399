"""Byzantine clients for a real federation: mods that stand between an honest client and the server.

>>> from flwr.clientapp import ClientApp
>>> app = ClientApp(mods=[byzantine("sign-flip")])

A mod acts on its own client only: it knows what the client computed and what it was sent, nothing of the others. For
adversaries that know more there is `Omniscient`, at the server of a test.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Never, final

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MessageType, RecordDict
from jaxtyping import Float, Int64
from numpy.typing import NDArray
from torch import Tensor

from steadfed._core.lookup import find
from steadfed._core.rng import stream
from steadfed.attacks import ATTACKS, AdversaryView, Attack, DataAttack, Forged, Knowledge, LabelAttack
from steadfed.attacks._poisoning import data_attack_of
from steadfed.data import Dataset
from steadfed.errors import ParameterError, SteadfedError
from steadfed.flower._coordinates import AskedFor
from steadfed.flower._records import RecordNumbers, layout_of
from steadfed.flower.redteam._forging import arrays_key, with_arrays
from steadfed.flower.redteam._malformed import MALFORMED
from steadfed.server._coordinates import part_of
from steadfed.states._layout import ModelLayout

Call = Callable[[Message, Context], Message]
Mod = Callable[[Message, Context, Call], Message]
"""What `ClientApp(mods=[...])` takes."""
MEMORY = "steadfed-attack-memory"
"""Under which name a client's state keeps what its attack remembers."""
_GRANTED = frozenset({Knowledge.OWN})


class SilentClientError(SteadfedError):
    """A Byzantine client sends no update, on purpose."""


def attack_mod(attack: Attack, *, seed: int = 0) -> Mod:
    """Return a mod that lets the client compute honestly, and sends what the attack makes of it.

    With x the model that was sent, x_r the client's and η the step size of the config (1 if it has none), the attack is
    shown u = (x − x_r)/η, as the only row it knows, and x − η u′ is sent, u′ being the forged row. Buffers are sent as
    they are. It is the row that the simulator forges for the same seed, round and own row, if the adversary has one
    client and sees nothing else.

    A client is not told how large the cohort is: the attack is shown a cohort of 1. Of the attacks here, those that
    choose their strength by the size (`ALittleIsEnough`, `Hidra`) multiply it with the spread of the rows they know,
    which is 0 for one row, so the size changes nothing.

    What an attack remembers is kept in the client's state. A client that keeps silent raises `SilentClientError`, which
    the server is told as an error; either way no update comes.

    Args:
        attack: one that needs to know nothing but its own client's update.
        seed: of the adversary's randomness; clients of the same seed send the same noise.

    Raises:
        ParameterError: the attack must know more, or it is one on the client's data.

    >>> attack_mod(ATTACKS.build("optimal+alie"))
    Traceback (most recent call last):
        ...
    steadfed.errors.ParameterError: Optimal(attack=ALittleIsEnough()) must know RULE, and a client knows OWN only; use \
Omniscient at the server of a test
    """
    refuse_data_attack(attack)
    missing = sorted(each.name for each in attack.all_needs() - _GRANTED)
    if missing:
        known = f"must know {', '.join(missing)}, and a client knows OWN only"
        raise ParameterError(f"{attack!r} {known}; use Omniscient at the server of a test")
    return _Attacking(attack, seed)


@final
@dataclass(frozen=True)
class _Attacking:
    """The mod of an attack."""

    attack: Attack
    seed: int

    def __call__(self, message: Message, context: Context, call_next: Call) -> Message:
        """Let the client compute, and put what the attack forges in the place of its parameters."""
        reply = call_next(message, context)
        if not _is_training(message) or reply.has_error():
            return reply
        sent, own = _arrays(message.content), _arrays(reply.content)
        lr, round = _lr_and_round(message.content)
        layout = layout_of(sent)
        asked = AskedFor.told(message.content, layout)
        self._check_memory(asked)
        x = part_of(layout.parameters_of(RecordNumbers(sent)), asked.places)
        update = (x - asked.layout.parameters_of(RecordNumbers(own))) / lr
        row = self._forge(update, round, context)
        if not torch.equal(row, update):  # what is sent honestly keeps its bits
            arrays = _with_parameters(own, asked.layout, x - lr * row)
            reply.content = with_arrays(reply.content, arrays)
        return reply

    def _check_memory(self, asked: AskedFor) -> None:
        """Refuse an attack that would set coordinates of one round against those of another."""
        if asked.coordinates is not None and any(each.remembers() for each in self.attack.chain()):
            raise ParameterError(
                f"{self.attack!r} remembers vectors from round to round, and every round is about other coordinates"
            )

    def _forge(self, update: Float[Tensor, " d"], round: int, context: Context) -> Float[Tensor, " d"]:
        """Return the row that is sent in the place of the client's own; raise `SilentClientError` if there is none."""
        view = AdversaryView(
            num_byzantine=1,
            cohort_size=1,
            own_rows=update[None],
            granted=_GRANTED,
            round=round,
            seed=self.seed,
            memory=_recall(context),
        )
        forged = self.attack(view)
        _remember(context, forged)
        if bool(forged.silent[0]):
            raise SilentClientError(f"{self.attack!r} sends nothing in round {round}")
        return forged.rows[0]


def malformed(name: str) -> Mod:
    """Return a mod that sends the malformed reply of this name, see `MALFORMED`.

    Replies without arrays, as to a message that asks for an evaluation, are forged as far as they have what is forged.

    Raises:
        UnknownNameError: there is none of this name; the nearest one is named.
    """
    forge = find("malformed reply", name, MALFORMED).forge

    def mod(message: Message, context: Context, call_next: Call) -> Message:
        reply = call_next(message, context)
        if reply.has_error():
            return reply
        try:
            reply.content = forge(reply.content, message.content)
        except ParameterError:  # it has no arrays
            if _is_training(message):
                raise
        return reply

    return mod


def stall_mod(seconds: float = 3600.0) -> Mod:
    """Return a mod that replies honestly, but late."""

    def mod(message: Message, context: Context, call_next: Call) -> Message:
        time.sleep(seconds)
        return call_next(message, context)

    return mod


def crash_mod() -> Mod:
    """Return a mod of a client whose code fails: Flower tells the server so."""

    def mod(_message: Message, _context: Context, _call_next: Call) -> Never:
        raise RuntimeError("this client crashes on purpose")

    return mod


def exit_mod(code: int = 1) -> Mod:
    """Return a mod of a client whose process ends at once, without a word."""

    def mod(_message: Message, _context: Context, _call_next: Call) -> Never:
        os._exit(code)

    return mod


_FAILURES: Mapping[str, Callable[[], Mod]] = MappingProxyType(
    {"crash": crash_mod, "exit": exit_mod, "stall": stall_mod}
)
BEHAVIOURS: tuple[str, ...] = tuple(sorted({*ATTACKS, *MALFORMED, *_FAILURES}))
"""Everything that `byzantine` knows by name."""


def byzantine(name: str, *, seed: int = 0, **parameters: Any) -> Mod:
    """Return the mod of this name: an attack's ("sleeper+sign-flip" too), a malformed reply's, or how to fail.

    Args:
        name: of `ATTACKS`, of `MALFORMED`, or "crash", "exit" or "stall".
        seed: of the adversary's randomness.
        parameters: of an attack, or `seconds` of "stall", or `code` of "exit".

    Raises:
        UnknownNameError: nothing has this name; the nearest one is named.
        ParameterError: a client alone cannot do it, or a parameter is wrong.

    >>> byzantine("sign-flop")
    Traceback (most recent call last):
        ...
    steadfed.errors.UnknownNameError: unknown Byzantine behaviour 'sign-flop', did you mean 'sign-flip'?; known: ...
    """
    find("Byzantine behaviour", name.partition("+")[0], dict.fromkeys(BEHAVIOURS))
    made = partial(malformed, name) if name in MALFORMED else _FAILURES.get(name)
    if made is not None:
        return _build(name, made, parameters)
    return attack_mod(ATTACKS.build(name, **parameters), seed=seed)


def _build(name: str, made: Callable[..., Mod], parameters: Mapping[str, Any]) -> Mod:
    try:
        return made(**parameters)
    except TypeError:
        listed = ", ".join(parameters) or "none"
        raise ParameterError(
            f"the Byzantine behaviour {name!r} has no such parameters: {listed}; 'stall' has seconds, 'exit' has code"
        ) from None


def poisoned_labels(
    attack: LabelAttack, labels: Int64[Tensor, "..."], *, num_classes: int, client: int, seed: int = 0
) -> Int64[Tensor, "..."]:
    """Return the labels that a client trains on whose data are attacked, those of the simulator.

    >>> from steadfed.attacks import LabelFlip
    >>> poisoned_labels(LabelFlip(), torch.tensor([0, 1, 2]), num_classes=10, client=3)
    tensor([9, 8, 7])
    """
    return attack.corrupt(labels, num_classes, stream(seed, "poison", client))


def poisoned_points(
    attack: DataAttack, dataset: Dataset, points: NDArray[np.int64], *, client: int, member: int = 0, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Return the features and labels that a client trains on whose data are attacked, those of the simulator.

    Args:
        attack: on labels or on inputs, such as a backdoor with a trigger.
        dataset: what all clients hold; the adversary may know all of it.
        points: which of its training points are the client's.
        client: the client's number.
        member: its number among the adversary's clients, for a trigger that is distributed over them.
        seed: the run's.

    >>> from steadfed.attacks import PixelTrigger
    >>> from steadfed.data import Digits
    >>> digits = Digits().load()
    >>> features, labels = poisoned_points(PixelTrigger(target_label=7), digits, np.arange(40), client=3)
    >>> tuple(features.shape), int((labels != digits.labels[:40]).sum())
    ((40, 1, 8, 8), 12)
    """
    share = attack.poisoning(dataset).share(points, member, stream(seed, "poison", client))
    features = dataset.features[torch.from_numpy(points) if share.places is None else share.places].clone()
    if share.trigger is not None and share.marked is not None:
        share.trigger.stamp_(features, share.marked)
    return features, share.labels


def refuse_data_attack(attack: Attack) -> None:
    """Raise `ParameterError` if the attack is done in the client's data, which no reply shows."""
    if data_attack_of(attack) is not None:
        raise ParameterError(
            f"{attack!r} is done in the client's data, not in its reply; train on poisoned_labels(...) or "
            f"poisoned_points(...) instead"
        )


def _is_training(message: Message) -> bool:
    return message.metadata.message_type.partition(".")[0] == MessageType.TRAIN


def _arrays(content: RecordDict) -> ArrayRecord:
    return content.array_records[arrays_key(content)]


def _lr_and_round(content: RecordDict) -> tuple[float, int]:
    """Return η and the round that the server says, 1 and 0 if it does not."""
    for record in content.values():
        if isinstance(record, ConfigRecord):
            said = {key: value for key, value in record.items() if isinstance(value, (int, float))}
            return float(said.get("lr", 1.0)), int(said.get("round", said.get("server-round", 1) - 1))
    return 1.0, 0


def _recall(context: Context) -> dict[str, Tensor]:
    record = context.state.get(MEMORY)
    if not isinstance(record, ArrayRecord):
        return {}
    return {name: torch.from_numpy(np.array(array.numpy())) for name, array in record.items()}


def _remember(context: Context, forged: Forged) -> None:
    if forged.memory:
        context.state[MEMORY] = ArrayRecord({name: Array(each.cpu().numpy()) for name, each in forged.memory.items()})


def _with_parameters(own: ArrayRecord, layout: ModelLayout, row: Float[Tensor, " d"]) -> ArrayRecord:
    """Return the client's arrays with the parameters of a row, whatever numbers it has."""
    changed = {}
    with np.errstate(over="ignore"):  # an attack may go beyond what the dtype can hold
        for spec in layout.parameters:
            changed[spec.name] = Array(row[spec.columns].numpy().astype(spec.held).reshape(spec.shape))
    return ArrayRecord({name: changed.get(name, array) for name, array in own.items()})
