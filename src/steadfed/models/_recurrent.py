"""Recurrent networks that guess the next character of a text."""

from __future__ import annotations

from abc import ABC
from typing import ClassVar, final

from torch import Tensor, nn

from steadfed.data._base import Dataset
from steadfed.models._base import Classifier, Width
from steadfed.models._fitting import num_symbols
from steadfed.models._registry import MODELS


class CharacterModel(Classifier, ABC):
    """Embedding, recurrent layers, one linear output per symbol at every place."""

    kind: ClassVar[str]
    """What messages call it."""
    recurrent: ClassVar[type[nn.GRU | nn.LSTM]]
    """The layers that have a state."""

    embedding: Width = 8
    """Length of the vector that stands for a symbol."""
    hidden: Width = 256
    """Length of the state."""
    layers: Width = 2
    """How many recurrent layers lie on each other."""

    def module(self, dataset: Dataset) -> nn.Module:
        """Return the network."""
        symbols = num_symbols(dataset, self.kind)
        recurrent = self.recurrent(self.embedding, self.hidden, self.layers, batch_first=True)
        return _Characters(symbols, self.embedding, recurrent)


@MODELS.register("gru")
@final
class GatedRecurrent(CharacterModel):
    """A GRU over characters: embedding, recurrent layers, one linear output per symbol at every place.

    >>> import torch
    >>> text = torch.randint(0, 65, (4, 21))
    >>> x, y = text[:, :-1], text[:, 1:]
    >>> data = Dataset(name="x", features=x, labels=y, test_features=x, test_labels=y, num_classes=65)
    >>> GatedRecurrent(hidden=16).build(data, seed=0)(x).shape
    torch.Size([4, 20, 65])
    """

    citation: ClassVar[str] = "Cho, van Merrienboer, Gulcehre, Bahdanau, Bougares, Schwenk, Bengio 2014"

    kind: ClassVar[str] = "gru"
    recurrent: ClassVar[type[nn.GRU | nn.LSTM]] = nn.GRU


@MODELS.register("lstm")
@final
class LongShortTermMemory(CharacterModel):
    """An LSTM over characters; the default is the one of McMahan et al. 2017 for Shakespeare.

    Embedding, recurrent layers, one linear output per symbol at every place.

    >>> import torch
    >>> text = torch.randint(0, 65, (4, 21))
    >>> x, y = text[:, :-1], text[:, 1:]
    >>> data = Dataset(name="x", features=x, labels=y, test_features=x, test_labels=y, num_classes=65)
    >>> sum(each.numel() for each in LongShortTermMemory().build(data, seed=0).parameters())
    815945
    """

    citation: ClassVar[str] = "Hochreiter, Schmidhuber 1997; as in McMahan et al. 2017, section 3"

    kind: ClassVar[str] = "lstm"
    recurrent: ClassVar[type[nn.GRU | nn.LSTM]] = nn.LSTM


class _Characters(nn.Module):
    """Symbols in, scores of the next symbol out, at every place."""

    def __init__(self, num_symbols: int, embedding: int, recurrent: nn.GRU | nn.LSTM) -> None:
        super().__init__()
        self.embedding = nn.Embedding(num_symbols, embedding)
        self.recurrent = recurrent
        self.outputs = nn.Linear(recurrent.hidden_size, num_symbols)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return batch × length × symbols."""
        states, _ = self.recurrent(self.embedding(tokens))
        scores: Tensor = self.outputs(states)
        return scores
