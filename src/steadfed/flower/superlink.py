"""Flower's SuperLink behind a door: `python -m steadfed.flower.superlink`, with the options of `flower-superlink`.

A SuperLink of Flower's own takes from a registered node whatever it sends: a list of 100,000 objects keeps its database
locked for minutes, one object of 300 MB fills its memory, and a message may name any sender and any addressee, so that
a node can leave orders for its neighbours. The door refuses these before Flower looks at them, and logs whose they are.

Nor can a node keep others from sending what it foresees of their messages, or what it hears of before it has been sent
whole: see `steadfed.flower._object_store`.

A request that takes long to arrive lies in memory meanwhile: of who has no registered key no more than `ENVELOPE` is
read, and nobody may send many at the same time, or for ever. What was broken off before its end is not looked at.

Sizes are learned: a reply may list twice as many objects as the largest message that a server app has sent, and 64.
What is refused is answered with a status that Flower's own SuperNode does not try again (401, 408, 413, 422); only who
sends too much in a minute, or at the same time, is told to come back (503). These variables change what is allowed:

    STEADFED_DOOR_OBJECTS        objects of a reply, in place of what is learned
    STEADFED_DOOR_OBJECT_BYTES   bytes of one object (5 MiB and 64 KiB, as Flower cuts arrays into chunks of 5 MiB)
    STEADFED_DOOR_MESSAGES       replies of a node in a minute (60)
    STEADFED_DOOR_REQUESTS       requests of a node in a minute (30,000)
    STEADFED_DOOR_UPLOADS        objects that a node may be sending at the same time (16; Flower's own send two)
    STEADFED_DOOR_SECONDS        seconds that a request may take to arrive (600)
"""

from __future__ import annotations

import asyncio
import binascii
import os
from base64 import b64decode
from logging import WARNING
from typing import Any, final

from flwr.common.constant import TIMESTAMP_HEADER
from flwr.proto.fleet_pb2 import PushMessagesRequest
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest
from flwr.proto.runtime_pb2 import PushAppMessagesRequest
from flwr.server.superlink.linkstate import InMemoryLinkState, LinkState, SqlLinkState
from flwr.supercore import log
from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER, FLEET_HTTP_SIGNATURE_HEADER
from flwr.supercore.primitives.asymmetric import bytes_to_public_key, verify_signature
from flwr.superlink import main as flower
from flwr.superlink.cli import flower_superlink
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message as Event, Receive, Scope, Send

from steadfed._core.wording import harmless
from steadfed.errors import ParameterError, RunError
from steadfed.flower._bodies import DRAINED, Body, TooLargeError, once
from steadfed.flower._doorkeeper import (
    ENVELOPE,
    FLEET,
    NOT_A_REPLY,
    TAKEN,
    TOO_LARGE,
    TOO_SLOW,
    Doorkeeper,
    DoorLimits,
    RefusalError,
)
from steadfed.flower._object_store import announced_by_server, is_whole, let_contents_decide

__all__ = ["DoorLimits", "main"]


def __dir__() -> list[str]:
    return __all__


def _check_known(state: LinkState, request: object) -> None:
    """Refuse what would end the upload of a message that a server app is sending: a node may hear of it before."""
    if isinstance(request, PushMessagesRequest):
        if _is_of_server(state, request.messages_list[0].metadata.message_id):
            raise RefusalError(NOT_A_REPLY, "the reply has the id of a message of the server's")
    elif isinstance(request, ConfirmMessageReceivedRequest) and not is_whole(
        state.object_store, request.message_object_id
    ):
        raise RefusalError(NOT_A_REPLY, "a message is said to be received of which parts have not come yet")


def _is_of_server(state: LinkState, message_id: str) -> bool:
    if isinstance(state, SqlLinkState):
        return state.get_valid_message_ins(message_id) is not None
    return isinstance(state, InMemoryLinkState) and message_id in state.message_ins_store


@final
class SizeDoor:
    """The outermost layer: reads the body of a node's request, so far as it is allowed to be, and hands it on whole."""

    def __init__(self, app: ASGIApp, keeper: Doorkeeper) -> None:
        self._app, self._keeper = app, keeper

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or answer it."""
        if scope["type"] != "http" or not scope.get("path", "").startswith(FLEET):
            await self._app(scope, receive, send)
            return
        try:
            async with asyncio.timeout(self._keeper.limits.seconds):
                body = await self._read(scope, receive)
        except TimeoutError:
            error = RefusalError(TOO_SLOW, f"a request may take {self._keeper.limits.seconds} s, took longer")
        except RefusalError as refusal:
            error = refusal
        else:
            if body is not None:
                await self._app(scope, once(body, receive), send)
            return
        # The headers are signed by the node's key, whatever the body says of itself.
        node = await asyncio.to_thread(_signer, scope)
        await _refuse(error, node or _stranger(scope), scope, receive, send)

    async def _read(self, scope: Scope, receive: Receive) -> bytes | None:
        """Return the body of a request; None if it was broken off."""
        most = self._keeper.largest(scope["path"])
        length = Headers(scope=scope).get("content-length", "")
        announced = int(length) if length.isdecimal() and len(length) < 20 else 0
        too_large = RefusalError(TOO_LARGE, f"a request to {harmless(scope['path'])} may have {most} bytes, got more")
        if announced > DRAINED:
            raise too_large
        body = Body(receive, 0 if announced > most else most)
        try:
            if not await body.has_come(ENVELOPE):
                with self._keeper.upload(await asyncio.to_thread(_signer, scope)):
                    await body.has_come(most)
        except TooLargeError:
            raise too_large from None
        return body.content


@final
class ReplyDoor:
    """The innermost layer: Flower has parsed the request and authenticated the node before."""

    def __init__(self, app: ASGIApp, keeper: Doorkeeper) -> None:
        self._app, self._keeper = app, keeper

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or answer it."""
        parsed = scope.get("state", {}).get("protobuf_request")
        try:
            if isinstance(parsed, PushAppMessagesRequest):
                with announced_by_server():
                    await self._app(scope, receive, self._learning(parsed, send))
                return
            if parsed is not None and scope["path"].startswith(FLEET) and hasattr(parsed, "node"):
                reply = isinstance(parsed, PushMessagesRequest)
                self._keeper.count(parsed.node.node_id, message=reply)
                if reply:
                    self._keeper.check_reply(parsed)
                await asyncio.to_thread(_check_known, Request(scope).app.state.linkstate_factory.state(), parsed)
        except RefusalError as error:
            await _refuse(error, str(parsed.node.node_id), scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _learning(self, sent: PushAppMessagesRequest, send: Send) -> Send:
        """Return what answers, and learns from messages that were taken: then a server app has sent them."""

        async def learn(event: Event) -> None:
            if event["type"] == "http.response.start" and event["status"] == TAKEN:
                self._keeper.learn(sent)
            await send(event)

        return learn


def _signer(scope: Scope) -> str | None:
    """Return the id of the node whose key has signed the headers of a request; None if no registered one has."""
    request = Request(scope)
    try:
        key = b64decode(request.headers[FLEET_HTTP_PUBLIC_KEY_HEADER], validate=True)
        signature = b64decode(request.headers[FLEET_HTTP_SIGNATURE_HEADER], validate=True)
        stamp = request.headers[TIMESTAMP_HEADER].encode("ascii")
        if not verify_signature(bytes_to_public_key(key), stamp, signature):
            return None
    except (KeyError, ValueError, TypeError, UnicodeError, binascii.Error):
        return None
    node_id = request.app.state.linkstate_factory.state().get_node_id_by_public_key(key)
    return None if node_id is None else str(node_id)


def _stranger(scope: Scope) -> str:
    client = Request(scope).client
    return f"unknown (from {client.host if client else 'nowhere'})"


async def _refuse(error: RefusalError, node: str, scope: Scope, receive: Receive, send: Send) -> None:
    log(WARNING, "[Door] refused %s of node %s: %s", harmless(scope["path"]), node, error)
    # What is refused may not have been read to its end.
    answer = JSONResponse({"detail": str(error)}, error.status, headers={"connection": "close"})
    await answer(scope, receive, send)


def guard(limits: DoorLimits) -> None:
    """Put the door before and behind Flower's own layers, in every app that this process makes from now on.

    Raises:
        RunError: this version of Flower is built otherwise, so that the door would not stand where it has to.
    """
    let_contents_decide()
    layers, make = getattr(flower, "_get_middleware", None), getattr(flower, "create_app", None)
    if not callable(layers) or not callable(make):
        raise RunError("this version of Flower has no place for the door; steadfed is tested with flwr 1.41")

    def with_door() -> list[Middleware]:
        keeper = Doorkeeper(limits)
        return [Middleware(SizeDoor, keeper=keeper), *layers(), Middleware(ReplyDoor, keeper=keeper)]

    def checked(*words: Any, **settings: Any) -> Any:
        app = make(*words, **settings)
        names = [getattr(layer.cls, "__name__", "") for layer in app.user_middleware]
        wanted = ["SizeDoor", "ProtobufTranslationMiddleware", "NodeAuthMiddleware", "ReplyDoor"]
        if [name for name in names if name in wanted] != wanted or (names[0], names[-1]) != (wanted[0], wanted[-1]):
            raise RunError(
                f"this version of Flower has other layers, and the door does not stand where it has to: {names}"
            )
        return app

    flower._get_middleware, flower.create_app = with_door, checked  # noqa: SLF001


def main() -> None:
    """Start a SuperLink behind the door; it does not start without."""
    if os.environ.get("FLWR_INTERNAL_GRPC_FLEET_API") == "1":
        raise SystemExit("the door guards HTTP; leave FLWR_INTERNAL_GRPC_FLEET_API out, or start flower-superlink")
    try:
        guard(DoorLimits.read(os.environ))
    except (ParameterError, RunError) as error:
        raise SystemExit(str(error)) from None
    flower_superlink()


if __name__ == "__main__":
    main()
