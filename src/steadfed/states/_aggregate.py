"""State dicts in, a state dict out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from steadfed.aggregators import Aggregator, ServerView
from steadfed.errors import ParameterError
from steadfed.server._record import Client
from steadfed.server._site_weights import SiteWeights
from steadfed.states._faults import type_of
from steadfed.states._layout import BUFFERS
from steadfed.states._result import StateAggregation
from steadfed.states._round import SentKind, StateRound

Replies: TypeAlias = Mapping[str, Any] | Mapping[int, Any] | Mapping[Client, Any]
"""What clients sent, by name."""


def aggregate_state_dicts(  # noqa: PLR0913  all that an operator may choose in a round
    reference: Mapping[str, Any],
    replies: Replies,
    rule: Aggregator,
    *,
    kind: SentKind = "weights",
    buffers: Sequence[str] = BUFFERS,
    convert_dtypes: bool = False,
    site_weights: SiteWeights | None = None,
    max_share: float | None = None,
    view: ServerView | None = None,
) -> StateAggregation:
    r"""Return the model that a rule makes of what clients sent, with the evidence for it by name.

    A reply becomes a row g_r = x − x_r of one K × d matrix, of float64 if an array of the model is, else of float32;
    the rule makes one update ĝ of the rows, every client with the same say unless you weigh them; the new model is
    x − ĝ, rounded to the dtypes of the reference. Buffers go another way: every entry is the median over the replies,
    of whole numbers the lower one, and no entry of a variance becomes negative.

    **What holds.** A reply that is no model like the reference (no dict, a name too many or too few, another shape or
    dtype, NaN, a tensor that is sparse, quantised, without numbers or of a foreign class) never raises: its client
    counts as one of those assumed to lie, and the result says what was wrong, without a number of it. If more are
    wrong than the rule assumes, or the new model would not be finite, the result is the reference with the reason. (A
    rule that assumes none promises nothing, and takes those that are sound.) The result depends on the names of
    clients and not on their order. Neither the reference nor a reply is changed, and the result shares no memory with
    them. Besides the matrix and a few rows nothing of the model's size is allocated.

    **What does not.** Replies are objects of this process: whoever unpickled them has run what they hold, before
    anything here could look at them. Read them with safetensors, or with `torch.load(..., weights_only=True)`.
    The average of products is not the product of averages: of low-rank adapters A and B are averaged each, so that the
    new B·A is not the mean of the clients' B·A. Tied weights are counted as often as they are named.

    Args:
        reference: the model that the clients were sent, tensors or arrays of numpy by name; or the part of it that
            they train, such as an adapter.
        replies: what each client sent, by its name; the name comes from the transport, not from the reply.
        rule: any rule, such as `Rage(num_byzantine=2)`.
        kind: what clients send: their "weights" after training, or the "difference" of these to the reference.
        buffers: patterns for names of arrays that are not trained; those of batch normalisation if left out.
        convert_dtypes: whether float16, bfloat16, float32 and float64 stand for each other in replies.
        site_weights: positive numbers by client that the operator set, for rules that weigh clients: `Mean`, and
            `Rage`, best with `byzantine_weight`.
        max_share: which share of the weight of all that were asked one client holds at the most.
        view: what the rule is told besides: `ServerView(round=3, memory=last.aggregation.memory, cohort_size=10)`;
            `sampled=False`, if everybody is asked in every round.

    Raises:
        ParameterError: an argument is none: the reference is no model, the rule is no rule or cannot weigh clients.
        DtypeError: an array of the reference holds something else than real or whole numbers or booleans.
        MissingKnowledgeError: the rule needs something that the view does not hold.

    >>> import torch
    >>> from steadfed import Rage
    >>> model = {"weight": torch.zeros(2, 3), "bias": torch.zeros(2), "steps": torch.tensor(4)}
    >>> def trained(weight):
    ...     return {"weight": weight, "bias": torch.ones(2), "steps": torch.tensor(9)}
    >>> names = ["Bonn", "Gera", "Jena", "Kiel", "Trier", "Ulm"]
    >>> replies = {name: trained(0.1 + 0.01 * torch.eye(6)[i].view(2, 3)) for i, name in enumerate(names)}
    >>> replies["Jena"] = trained(torch.full((2, 3), -500.0))
    >>> replies["Gera"] = {"weight": torch.ones(7)}
    >>> found = aggregate_state_dicts(model, replies, Rage(num_byzantine=2))
    >>> {name: fate.word for name, fate in found.fates.items()}
    {'Bonn': 'kept', 'Gera': 'malformed', 'Jena': 'removed', 'Kiel': 'kept', 'Trier': 'kept', 'Ulm': 'kept'}
    >>> found.state["weight"].mean(), found.state["steps"]
    (tensor(0.1017), tensor(9))
    >>> found.dropped["Gera"]
    "keys: the arrays must be those of the model; missing: 'bias', 'steps'; extra: none"
    >>> found.layers["Jena"]
    {'weight': 1.0, 'bias': 0.0}
    >>> aggregate_state_dicts(model, replies | {"Jena": None}, Rage(num_byzantine=1)).skipped
    '2 of 6 updates are unusable, more than the 1 client assumed to be Byzantine'
    """
    if not isinstance(replies, Mapping):
        raise ParameterError(f"replies must be a dict of what each client sent, by name, got {type_of(replies)}")
    round = StateRound(reference, replies, kind=kind, buffers=buffers, convert_dtypes=convert_dtypes)
    for client, reply in replies.items():
        round.take(client, reply)
    return round.aggregate(rule, view, site_weights=site_weights, max_share=max_share)
