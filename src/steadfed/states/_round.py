"""A round of a server whose clients send state dicts: replies come one at a time, then the rule is asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal, final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from steadfed._core.wording import harmless
from steadfed.aggregators import Aggregation, Aggregator, Need, ServerView
from steadfed.errors import MissingKnowledgeError, ParameterError, ReplyError
from steadfed.server._decision import Skipped
from steadfed.server._record import Client, DroppedReply, RoundRecord
from steadfed.server._round import MessageBytes, Received, Server, round_record
from steadfed.server._site_weights import SiteWeights, sites_of
from steadfed.server._state import ServerState
from steadfed.states._arrays import Kind, NDArray
from steadfed.states._faults import Fault, only_reply_errors, refuse, type_of
from steadfed.states._layers import deviations, shares_of_removed
from steadfed.states._layout import BUFFERS, ModelLayout
from steadfed.states._matrix import UpdateMatrix
from steadfed.states._result import StateAggregation
from steadfed.states._tensors import like_trusted, trusted_array, write_numbers
from steadfed.states._validator import StateValidator

SentKind = Literal["weights", "difference"]
_KINDS = ("weights", "difference")
_LONGEST = 300
"""Most letters of what is said about a reply."""


@final
class StateRound:
    """One round: the model that went out, who was asked, and what comes back, read into one matrix as it comes.

    Nothing that a client sends raises: what is no model like the reference is noted, and counts as one of the clients
    that are assumed to lie. A reply can be freed as soon as it was taken.

    Args:
        reference: the model that the clients were sent: tensors or arrays of numpy by name. The arrays that are trained
            and sent, if these are a part of a model, such as an adapter. It is not changed, and may be afterwards.
        asked: the names of the clients that were asked; the result does not depend on their order.
        kind: what clients send: their "weights" after training, or the "difference" of these to the reference.
        buffers: patterns for names of arrays that are not trained. They go the way of the median, as all whole numbers
            and booleans do, and no rule sees them.
        convert_dtypes: whether real numbers of another precision are converted; otherwise they are no model.

    Raises:
        ParameterError: the reference is no model: an array is none or not finite, or nothing in it is trained; or a
            name of a client stands there twice.
        DtypeError: an array of the reference holds something else than real or whole numbers or booleans.

    >>> from steadfed import Median
    >>> round = StateRound({"w": torch.zeros(2)}, asked=["a", "b", "c", "d"])
    >>> for name, value in zip("abc", (1.0, 2.0, 900.0), strict=True):
    ...     round.take(name, {"w": torch.full((2,), value)})
    >>> round.take("d", {"w": torch.ones(3)})
    "shape: array 'w': the shape must be (2,), got (3,)"
    >>> found = round.aggregate(Median())
    >>> found.state
    {'w': tensor([2., 2.])}
    >>> found
    StateAggregation(1 array, {'a': removed, 'b': kept, 'c': removed, 'd': malformed})
    """

    def __init__(
        self,
        reference: Mapping[str, Any],
        asked: Iterable[Client],
        *,
        kind: SentKind = "weights",
        buffers: Sequence[str] = BUFFERS,
        convert_dtypes: bool = False,
    ) -> None:
        if not isinstance(reference, Mapping):
            raise ParameterError(f"the reference must be a dict of arrays by name, got {type_of(reference)}")
        if kind not in _KINDS:
            raise ParameterError(f"kind must be one of {', '.join(map(repr, _KINDS))}, got {kind!r}")
        if (
            not isinstance(buffers, Sequence)
            or isinstance(buffers, str)
            or any(type(each) is not str for each in buffers)
        ):
            raise ParameterError(f"buffers must be a list of patterns for names of arrays, got {buffers!r:.80}")
        self.asked = _checked_names(asked)
        """The names of the clients, in the order of the rows."""
        self._kind = kind
        self._trusted = {name: trusted_array(name, value) for name, value in reference.items()}
        self.layout = ModelLayout.of(self._trusted, buffers)
        """How the model lies in a row."""
        state = self.layout.state_of(self._trusted)
        self._start = replace(state, counters={name: value.copy() for name, value in state.counters.items()})
        self._validator = StateValidator(self.layout, write_numbers, convert_dtypes=convert_dtypes, describe=_kind_of)
        start = state.model if kind == "weights" else torch.zeros_like(state.model[:1]).expand(self.layout.dim)
        self._updates = UpdateMatrix(start, number=len(self.asked))
        self._places = {client: place for place, client in enumerate(self.asked)}
        self._drops: list[DroppedReply] = []
        self._answered: set[int] = set()
        self._received: Received | None = None

    def take(self, client: Client, reply: object) -> str | None:
        """Read a reply; return what is wrong with it, or None if it is a model like the reference.

        A second reply of the same client is not looked at, nor is one of somebody who was not asked.

        Raises:
            ParameterError: the round is over.
        """
        place = self._place(client)
        if place is None:
            return self._drops[-1].why
        row = self._updates.row(place)
        try:
            with only_reply_errors(_kind_of):  # what a reply is may be asked of the reply itself
                if not isinstance(reply, Mapping):
                    refuse(Fault.GARBAGE, f"a dict of arrays by name is needed, got {type_of(reply)}")
            buffers = self._validator.admit(reply, row.numpy())
        except ReplyError as error:
            self._updates.spoil(place)
            return self._note(client, error.fault, str(error))
        self._updates.admit(place, buffers if self._kind == "weights" else self._moved(buffers))
        return None

    def miss(self, client: Client, why: str) -> None:
        """Note that a client reports an error in place of a model; who says nothing at all need not be named.

        It counts as absent, not as one of those that lie: it claims nothing.

        Raises:
            ParameterError: the round is over.
        """
        if self._place(client) is not None:
            self._note(client, Fault.ERROR, why)

    def update_of(self, model: Mapping[str, Any]) -> Float[Tensor, " d"]:
        """Return a model of the server's own, trained from the reference, as a row: x − x_r.

        For `ServerView(trusted_row=...)`, which rules such as FLTrust need.
        """
        trusted = {name: trusted_array(name, value) for name, value in model.items()}
        return self._start.model - self.layout.parameters_of(trusted)

    def state_of(self, parameters: Float[Tensor, " d"]) -> dict[str, Any]:
        """Return the reference with the parameters of a row in place of its own.

        For `ServerView(trusted_loss=...)`, which is given rows.
        """
        return self._outgoing(replace(self._start, model=parameters))

    def aggregate(
        self,
        rule: Aggregator,
        view: ServerView | None = None,
        *,
        site_weights: SiteWeights | None = None,
        max_share: float | None = None,
    ) -> StateAggregation:
        """End the round, and return what the rule makes of the replies; other rules may be asked afterwards.

        Args:
            rule: any rule.
            view: what it is told besides the updates: the round, what it remembers, what the server trusts. The model,
                the clients and how many were asked are filled in.
            site_weights: positive numbers by client, for rules that weigh clients.
            max_share: which share of the weight of all that were asked one client holds at the most.

        Raises:
            ParameterError: the rule is none, or cannot weigh clients.
            MissingKnowledgeError: the rule needs something that the view does not hold.
        """
        if not isinstance(rule, Aggregator):
            raise ParameterError(f"the rule must be one such as Rage(num_byzantine=1), got {type_of(rule)}")
        if (sites := sites_of(site_weights, max_share)) is not None:
            sites.check_names(self.asked)
            rule.check_weighs()
        told = _completed(view or ServerView(), rule, self._start.model, len(self.asked))
        received = self._close()
        server = Server(rule, 0.0, self.layout.variances, sites)
        state = replace(self._start, round=told.round, rule_memory=told.memory)
        outcome, following = server.conclude(state, received, told, lr=1.0, asked=self.asked)
        layers = shares_of_removed(self.layout, received, outcome)
        record = self._record(outcome, received, told.round).model_copy(update={"deviations": deviations(layers)})
        aggregation = None if isinstance(outcome, Skipped) else outcome
        return StateAggregation(self._outgoing(following), aggregation, record, layers)

    def _record(self, outcome: Aggregation | Skipped, received: Received, round: int) -> RoundRecord:
        return round_record(
            outcome,
            round=round,
            step=round + 1,
            lr=1.0,
            cohort=self.asked,
            received=received.clients,
            message_bytes=MessageBytes(self.layout.nbytes, self.layout.nbytes),
            drops=tuple(self._drops),
        )

    def _place(self, client: Client) -> int | None:
        """Return which row is a client's; None if it has none, or no second one, which is noted."""
        if self._received is not None:
            raise ParameterError(f"the round is over; the reply of {client!r} comes too late")
        place = self._places.get(client)
        if place is None:
            self._note(client, Fault.NOT_ASKED, "it is none of those that were asked")
            return None
        if place in self._answered:
            self._note(client, Fault.REPEATED, "the first reply counts")
            return None
        self._answered.add(place)
        return place

    def _note(self, client: Client, fault: str, detail: str) -> str:
        self._drops.append(DroppedReply(client=client, fault=str(fault), detail=harmless(detail, limit=_LONGEST)))
        return self._drops[-1].why

    def _close(self) -> Received:
        if self._received is None:
            for place, client in enumerate(self.asked):
                if place not in self._answered:
                    self._note(client, Fault.SILENT, "no reply")
            self._received = self._updates.received(self.layout, self.asked)
        return self._received

    def _moved(self, differences: Mapping[str, NDArray]) -> dict[str, NDArray]:
        """Return buffers from their differences to the reference's; booleans, which have none, as they were sent."""
        floats, found = self._start.buffers.numpy(), {}
        with np.errstate(all="ignore"):  # what overflows is left out of the median, or is somewhere in it
            for spec in self.layout.buffers:
                sent = differences[spec.name]
                if spec.kind is Kind.FLOAT_BUFFER:
                    found[spec.name] = floats[spec.columns].reshape(spec.shape) + sent
                elif spec.dtype == "bool":
                    found[spec.name] = sent
                else:
                    found[spec.name] = np.asarray(self._start.counters[spec.name] + sent, spec.held)
        return found

    def _outgoing(self, state: ServerState) -> dict[str, Any]:
        arrays = self.layout.arrays_of(state)
        return {name: like_trusted(arrays[name], trusted) for name, trusted in self._trusted.items()}


def _kind_of(error: Exception) -> str:
    """Return what is said of an error that nobody foresaw: nothing that a reply could have chosen."""
    return type(error).__name__


def _completed(view: ServerView, rule: Aggregator, model: Tensor, asked: int) -> ServerView:
    """Return what the rule is told besides the rows, with what is known here; refuse if something is missing."""
    if not isinstance(view, ServerView):
        raise ParameterError(f"the view must be a ServerView, got {type_of(view)}")
    for need, given in ((Need.TRUSTED_ROW, view.trusted_row), (Need.TRUSTED_LOSS, view.trusted_loss)):
        if need in rule.all_needs() and given is None:
            raise MissingKnowledgeError(f"{rule!r} needs {need}; pass view=ServerView({need.name.lower()}=...)")
    return replace(view, model=model, cohort_size=max(asked, view.cohort_size or 1))


def _checked_names(asked: Iterable[Client]) -> tuple[Client, ...]:
    """Return the names in one order, whatever order they came in."""
    names = list(asked)
    for name in names:
        if type(name) not in {str, int}:
            raise ParameterError(f"the name of a client must be text or a whole number, got {type_of(name)}")
    written = sorted(map(str, names))
    if twice := sorted({one for one, other in pairwise(written) if one == other}):
        raise ParameterError(f"every client must have a name of its own, got {twice[0]!r} more than once")
    return tuple(sorted(names, key=lambda name: (isinstance(name, str), name)))
