"""A node that leaves orders for others: what it sends looks like the server's, and clients with the key refuse it."""

from __future__ import annotations

import time
from base64 import b64decode
from pathlib import Path
from typing import cast

import httpx
import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from flwr.app import Array, ArrayRecord, Message
from flwr.common.constant import TIMESTAMP_HEADER
from flwr.proto.fleet_pb2 import PushMessagesRequest, PushMessagesResponse
from flwr.proto.message_pb2 import PushObjectRequest, PushObjectResponse
from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER, FLEET_HTTP_SIGNATURE_HEADER
from flwr.supercore.inflatable.inflatable_object import iterate_object_tree
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.primitives.asymmetric import bytes_to_public_key, verify_signature
from tests.flower.keys import knowing, trusting

from steadfed.deploy import make_certificates, make_node_key
from steadfed.errors import OrderError, ParameterError
from steadfed.flower._acceptance import accept
from steadfed.flower.redteam import Intruder, forged_order

VICTIM, LIAR, RUN = 7, 9, 3


class FleetApi:
    """What a SuperLink's door for nodes would take."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.message = PushMessagesRequest()
        self.requests: list[httpx.Request] = []

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if request.url.path == "/v1/fleet/push-object":
            pushed = PushObjectRequest.FromString(request.content)
            self.objects[pushed.object_id] = pushed.object_content
            return httpx.Response(200, content=PushObjectResponse(stored=True).SerializeToString())
        self.message = PushMessagesRequest.FromString(request.content)
        wanted = [tree.object_id for tree in iterate_object_tree(self.message.message_object_trees[0])]
        response = PushMessagesResponse(objects_to_push=wanted, session_id="session")
        return httpx.Response(200, content=response.SerializeToString())


def arrays() -> ArrayRecord:
    return ArrayRecord({"weight": Array(np.zeros((2, 2), np.float32))})


@pytest.fixture
def api(tmp_path: Path) -> FleetApi:
    """Return the door after an intruder has left a message there."""
    found, key = FleetApi(), tmp_path / "keys" / "node-9"
    make_node_key(key)
    authority = make_certificates(tmp_path / "tls").authority
    with Intruder("127.0.0.1:1", LIAR, key, authority) as intruder:
        intruder._client._client = httpx.Client(transport=httpx.MockTransport(found.answer))  # noqa: SLF001
        left = intruder.leave(forged_order(arrays()), VICTIM, RUN, age=3600.0)
    assert left == found.message.messages_list[0].metadata.message_id
    return found


def test_it_signs_its_requests_as_a_node_and_its_messages_are_old_ones_of_the_server(api: FleetApi) -> None:
    for request in api.requests:
        public = bytes_to_public_key(b64decode(request.headers[FLEET_HTTP_PUBLIC_KEY_HEADER]))
        signature = b64decode(request.headers[FLEET_HTTP_SIGNATURE_HEADER])
        assert verify_signature(public, request.headers[TIMESTAMP_HEADER].encode(), signature)
    assert api.message.node.node_id == LIAR
    said = api.message.messages_list[0].metadata
    assert (said.src_node_id, said.dst_node_id, said.run_id, said.message_type) == (1, VICTIM, RUN, "train")
    assert said.created_at == pytest.approx(time.time() - 3600.0, abs=60.0)


def test_a_client_that_trusts_everybody_would_take_it_and_one_with_the_key_refuses(api: FleetApi) -> None:
    top = api.message.messages_list[0].metadata.message_id
    message = cast("Message", inflate_object_from_contents(top, api.objects))
    assert message.content["config"]["local-steps"] == 100_000
    assert accept(message, trusting(VICTIM)) is None
    with pytest.raises(OrderError, match="no order of the federation's server"):
        accept(message, knowing(VICTIM, run=RUN))


def test_the_key_of_a_node_lies_on_a_curve(tmp_path: Path) -> None:
    key = tmp_path / "key"
    private = ed25519.Ed25519PrivateKey.generate()
    key.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    with pytest.raises(ParameterError, match="lies on a curve, got Ed25519PrivateKey"):
        Intruder("127.0.0.1:1", LIAR, key, key)
