"""Messages to clients: every one with a secret of its own, and with the server's signature where there is a key.

Flower's object store remembers with which parts an object was announced first, and fails over everybody who announces
it otherwise. Ids are hashes of contents; so no content may be foreseen by those who could announce it first.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

from steadfed._core.signatures import SigningKey
from steadfed.errors import ParameterError
from steadfed.flower._nodes import Member, NodeDirectory
from steadfed.flower._npy import model_digest, with_secret
from steadfed.flower._orders import ORDER, SECRET, Order, described
from steadfed.flower._replies.matcher import ReplyMatcher, secret

RESOLUTION = 0.001
"""Seconds that lie at least between two orders."""


@final
@dataclass(frozen=True, eq=False)
class Letter:
    """What is written to one client, but for the model and the secrets."""

    client: Member
    kind: str
    config: ConfigRecord
    others: Mapping[str, ArrayRecord | ConfigRecord | MetricRecord] = field(default_factory=dict)
    """Records that are no part of an order."""


@final
class Writer:
    """Writes the messages of a strategy."""

    def __init__(self, signer: SigningKey | None, *, arrays_key: str, config_key: str) -> None:
        """Take the key that orders are signed with, if there is one, and the names of the records."""
        self.ttl: float | None = None
        """How long messages stay valid, in seconds; Flower's own default if None."""
        self._signer = signer
        self._arrays_key, self._config_key = arrays_key, config_key
        self._issued = 0.0
        self._named: tuple[int, ArrayRecord, str] | None = None

    def digest_of(self, arrays: ArrayRecord, round: int) -> str:
        """Return what a model is called; that of the one looked at last is known until the round is over."""
        if self._named is None or self._named[0] != round or self._named[1] is not arrays:
            self._named = round, arrays, model_digest(arrays)
        return self._named[2]

    def write(self, letters: Iterable[Letter], arrays: ArrayRecord, round: int) -> list[Message]:
        """Return a message for every letter, all with the same model in bytes of its own; written again, others.

        Raises:
            ParameterError: an order would be larger than clients read, or there are records that cannot be signed.
        """
        sent, messages = with_secret(arrays), []
        digest = "" if self._signer is None else self.digest_of(arrays, round)
        for letter in letters:
            content = RecordDict({**letter.others, self._arrays_key: sent, self._config_key: ConfigRecord()})
            message = Message(content, letter.client.node_id, letter.kind, ttl=self.ttl, group_id=secret())
            told = ConfigRecord({**letter.config, SECRET: secret()})
            if self._signer is not None:
                told[ORDER] = self._order(letter, told, message, round, digest).sealed(self._signer)
            content[self._config_key] = told
            messages.append(message)
        return messages

    def _order(self, letter: Letter, told: ConfigRecord, message: Message, round: int, digest: str) -> Order:
        if letter.others:
            raise ParameterError(
                f"a signed message holds the model and one ConfigRecord, and the strategy adds "
                f"{', '.join(letter.others)}; leave signing_key out, or put it into the ConfigRecord"
            )
        # The clock may be set back; an order that is not newer than the last one would be taken for a replay.
        self._issued = max(time.time(), self._issued + RESOLUTION)
        return Order(
            run=str(message.metadata.run_id),
            kind=letter.kind,
            round=round,
            client=str(letter.client.node_id),
            model=digest,
            config=described(told),
            issued=self._issued,
            expires=self._issued + message.metadata.ttl,
        )


@final
class Mail:
    """The messages of one round as they were written last, and who is expected to answer them."""

    def __init__(
        self, writer: Writer, letters: Sequence[Letter], arrays: ArrayRecord, round: int, directory: NodeDirectory
    ) -> None:
        """Write the messages."""
        self._writer, self._letters, self._arrays, self._round = writer, letters, arrays, round
        self.messages = writer.write(letters, arrays, round)
        self.matcher = ReplyMatcher([letter.client for letter in letters], self.messages, directory)

    def write_again(self) -> list[Message]:
        """Return the messages with new secrets; replies to those before count no more."""
        self.messages = self._writer.write(self._letters, self._arrays, self._round)
        self.matcher.expect(self.messages)
        return self.messages
