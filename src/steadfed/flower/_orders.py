"""Orders that only the server can give: what a client is asked to do, for whom, until when, and a signature over it.

A SuperLink hands on whatever a registered node leaves there in the server's name. So a message to a client holds, in
its ConfigRecord, the entry `steadfed-order`: a DSSE envelope (`steadfed._core.signatures`) around the JSON of an
`Order`, signed with the federation's key. What a client is told besides is not believed.

Clients start a process for every message; this module needs no torch.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from typing import Annotated, Any, Self, final

from flwr.app import ConfigRecord
from pydantic import Field

from steadfed._core.signatures import Envelope, SigningKey, VerificationKey
from steadfed._core.values import ValueObject
from steadfed.errors import OrderError, ParameterError, SignatureError

ORDER = "steadfed-order"
"""Name of the entry of a ConfigRecord that holds the envelope."""
SECRET = "steadfed-secret"  # noqa: S105  a name
"""Name of the entry that nobody can foresee: of a ConfigRecord in every message, signed or not, and of metrics."""
PAYLOAD_TYPE = "application/vnd.steadfed.order+json"
MOST_BYTES = 1024 * 1024
"""Bytes that an envelope may take; a longer one is not decoded."""
_DIGITS = r"^[0-9]{1,20}$"


@final
class Order(ValueObject):
    """What the server asks of one client in one round."""

    run: Annotated[str, Field(pattern=_DIGITS)]
    """Flower's id of the run."""
    kind: Annotated[str, Field(min_length=1, max_length=200)]
    """The type of the message: "train", "evaluate"."""
    round: Annotated[int, Field(ge=0)]
    """From 0."""
    client: Annotated[str, Field(pattern=_DIGITS)]
    """Flower's id of the node."""
    model: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    """The digest of the arrays that are sent, `steadfed._core.digests.arrays_digest`."""
    config: Mapping[str, Any]
    """Every other entry of the ConfigRecord, as `described`; among them the message's secret."""
    issued: Annotated[float, Field(ge=0.0)]
    """When it was given, in unix seconds by the server's clock; later in every order than in the one before."""
    expires: Annotated[float, Field(ge=0.0)]
    """Until when the server waits for the reply."""

    def sealed(self, key: SigningKey) -> str:
        """Return the order with its signature, as it is sent.

        Raises:
            ParameterError: it is larger than clients read.
        """
        text = key.seal(PAYLOAD_TYPE, _written(self.model_dump()).encode()).to_json()
        if len(text) > MOST_BYTES:
            raise ParameterError(
                f"an order may take {MOST_BYTES} bytes, got {len(text)}: the ConfigRecord is too large to be signed; "
                f"send large things as arrays"
            )
        return text

    @classmethod
    def opened(cls, text: str, key: VerificationKey) -> Self:
        """Return the order that an envelope holds, if it is signed with the key.

        Raises:
            OrderError: it is too large, no envelope, or signed by somebody else.
        """
        if len(text) > MOST_BYTES:
            raise OrderError(f"an order may take {MOST_BYTES} bytes, got {len(text)}")
        try:
            payload = Envelope.from_json(text).open(key, PAYLOAD_TYPE)
        except SignatureError as error:
            raise OrderError(f"the order is not the server's: {error}") from None
        try:
            return cls(**json.loads(payload))
        except (ValueError, TypeError, RecursionError) as error:
            raise OrderError(f"the server has signed what is no order of this version of steadfed: {error}") from None

    def says(self, config: ConfigRecord) -> bool:
        """Return whether a ConfigRecord holds exactly what was ordered."""
        return _written(self.config) == _written(described(config))


def described(config: ConfigRecord) -> dict[str, Any]:
    """Return the entries of a ConfigRecord but for the order itself, in words of JSON that keep kind and value.

    >>> described(ConfigRecord({"lr": 1.0, "round": 1, "key": b"a", "nothing": float("nan")}))
    {'lr': 1.0, 'round': 1, 'key': {'bytes': 'YQ=='}, 'nothing': {'float': 'nan'}}
    """
    return {key: _plain(value) for key, value in config.items() if key != ORDER}


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    return value


def _written(table: Mapping[str, Any]) -> str:
    return json.dumps(table, sort_keys=True, separators=(",", ":"))
