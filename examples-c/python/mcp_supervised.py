"""Supervised MCP servers for asyncio: libmcp_supervised through ctypes. Needs Python 3.9 or later and nothing else.

    async with mcp_supervised.Host() as host:
        server = host.add("my-mcp-server", "--stdio", client_info=("my-host", "1.0"))
        server.start()
        result = await server.call_tool("echo", {"message": "hello"})
        print(result.json()["content"])

The handle's one descriptor is watched with the loop's ``add_reader``: no thread, no polling. Everything has to be called on the
loop's thread, as with all of asyncio; ``Host.wakeup`` alone may be called from any. What the calls mean, and which errors they
have, is told by the comments of include/mcp_supervised.h at the C function of the same name.

JSON goes in as what ``json.dumps`` takes, or as ``Raw(text)`` if it is JSON already, and comes out as bytes, byte for byte as the
server wrote it; ``json()`` parses them.

The library is ``libmcp_supervised.so.0`` wherever the loader finds it, or the file that ``MCP_SUPERVISED_LIBRARY`` names.

License: MIT OR Apache-2.0.
"""

import asyncio
import ctypes
import dataclasses
import enum
import inspect
import json
import os
from collections import deque
from typing import Any, Callable, Coroutine, Dict, List, Mapping, Optional, Sequence, Tuple

__all__ = [
    "CloseReason", "Era", "Error", "Event", "Flag", "Host", "Kind", "LogLevel", "MessageKind", "Mode", "NEVER", "NO_RESTART",
    "Raw", "Refusal", "RemoteError", "RequestError", "Result", "Server", "State", "Stream", "UNLIMITED", "version",
]

UNLIMITED = 0xFFFFFFFF
NO_RESTART = 0xFFFFFFFE
#: As a time: without end.
NEVER = float("inf")

_ABI = 0
_UINT64_MAX = 0xFFFFFFFFFFFFFFFF
_EVENTS = 64
#: Events that may wait for their readers before the host takes no more, while nobody waits for an answer.
_ENOUGH = 1024


class Kind(enum.IntEnum):
    """What an event is about."""

    MESSAGE = 1
    CLOSE = 2
    RECONNECT = 3
    ERROR = 4
    EXHAUSTED = 5
    READY = 6
    DRAIN = 7
    LOG = 8
    WRITABLE = 9
    WAKEUP = 11
    SHUTDOWN = 12


class MessageKind(enum.IntEnum):
    RESULT = 1
    REMOTE_ERROR = 2
    NOTIFICATION = 3
    REQUEST = 4
    UNMATCHED = 5


class Mode(enum.IntEnum):
    AUTO = 1
    MODERN = 2
    LEGACY = 3
    RAW = 4


class Era(enum.IntEnum):
    MODERN = 1
    LEGACY = 2


class State(enum.IntEnum):
    IDLE = 0
    STARTING = 1
    RUNNING = 2
    ENDING = 3
    WAITING = 4
    DRAINING = 5
    CLOSING = 6
    CLOSED = 7


class CloseReason(enum.IntEnum):
    PEER_LOST = 1
    CLOSED_BY_HOST = 2
    WITHDRAWN = 3


class LogLevel(enum.IntEnum):
    SERVER = 0
    ERROR = 1
    WARNING = 2
    INFO = 3


class Flag(enum.IntFlag):
    COMPLETE = 1 << 0
    FINAL = 1 << 1
    WILL_RECONNECT = 1 << 2
    RETRIED = 1 << 3
    UNREAD = 1 << 4
    INPUT_REQUIRED = 1 << 5
    OTHER_RESULT_TYPE = 1 << 6
    EMULATED = 1 << 7
    SERVER_CHANGED = 1 << 8
    BY_PEER = 1 << 9
    EXIT_UNKNOWN = 1 << 10


class _RawEvent(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("peer", ctypes.c_uint64),
        ("peer_data", ctypes.c_uint64),
        ("request", ctypes.c_uint64),
        ("user_data", ctypes.c_uint64),
        ("status", ctypes.c_int32),
        ("message_kind", ctypes.c_uint32),
        ("error_code", ctypes.c_int64),
        ("exit_code", ctypes.c_int32),
        ("signal", ctypes.c_int32),
        ("pid", ctypes.c_int32),
        ("life", ctypes.c_uint32),
        ("attempt", ctypes.c_uint32),
        ("max_restarts", ctypes.c_uint32),
        ("delay_ms", ctypes.c_uint64),
        ("uptime_ms", ctypes.c_uint64),
        ("count", ctypes.c_uint64),
        ("unread_from", ctypes.c_uint64),
        ("era", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("payload", ctypes.c_void_p),
        ("payload_len", ctypes.c_size_t),
        ("method", ctypes.c_void_p),
        ("method_len", ctypes.c_size_t),
        ("body", ctypes.c_void_p),
        ("body_len", ctypes.c_size_t),
        ("id", ctypes.c_void_p),
        ("id_len", ctypes.c_size_t),
    ]


class _RequestOptions(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("user_data", ctypes.c_uint64),
        ("timeout_ms", ctypes.c_uint64),
        ("max_timeout_ms", ctypes.c_uint64),
        ("flags", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    ]


_P = ctypes.c_void_p
_TEXT = (ctypes.c_char_p, ctypes.c_size_t)
_I32, _U32, _U64 = ctypes.c_int32, ctypes.c_uint32, ctypes.c_uint64

#: Name, result, arguments. What is not here cannot be called by mistake with the wrong types.
_PROTOTYPES: Dict[str, Tuple[Any, Sequence[Any]]] = {
    "abi_version": (_U32, ()),
    "version": (ctypes.c_char_p, ()),
    "status_name": (ctypes.c_char_p, (_I32,)),
    "config_new": (_I32, (ctypes.POINTER(_P),)),
    "config_manual_clock": (_I32, (_P, _U32)),
    "config_log_level": (_I32, (_P, _U32)),
    "config_free": (None, (_P,)),
    "new": (_I32, (_P, ctypes.POINTER(_P), ctypes.c_char_p, ctypes.c_size_t)),
    "fd": (_I32, (_P,)),
    "poll": (_I32, (_P, ctypes.POINTER(_RawEvent), ctypes.c_size_t, ctypes.c_size_t, _I32)),
    "wakeup": (_I32, (_P,)),
    "advance": (_I32, (_P, _U64)),
    "last_error": (_I32, (_P, ctypes.POINTER(_P), ctypes.POINTER(ctypes.c_size_t))),
    "shutdown": (_I32, (_P, _U64)),
    "free": (_I32, (_P,)),
    "spec_new": (_I32, (*_TEXT, ctypes.POINTER(_P))),
    "spec_arg": (_I32, (_P, *_TEXT)),
    "spec_cwd": (_I32, (_P, *_TEXT)),
    "spec_env_mode": (_I32, (_P, _U32)),
    "spec_env": (_I32, (_P, *_TEXT, *_TEXT)),
    "spec_mode": (_I32, (_P, _U32)),
    "spec_restart": (_I32, (_P, _U32, _U64, _U64)),
    "spec_stop_grace": (_I32, (_P, _U64, _U64)),
    "spec_limit": (_I32, (_P, _U32, _U64)),
    "spec_stderr": (_I32, (_P, _U32)),
    "spec_free": (None, (_P,)),
    "spec_client_info": (_I32, (_P, *_TEXT, *_TEXT)),
    "spec_client_capabilities": (_I32, (_P, *_TEXT)),
    "spec_request_timeouts": (_I32, (_P, _U64, _U64)),
    "spec_start_timeouts": (_I32, (_P, _U64, _U64)),
    "spec_retry_lost_requests": (_I32, (_P, _U32)),
    "spec_rediscover": (_I32, (_P, _U32)),
    "spec_server_log_level": (_I32, (_P, *_TEXT)),
    "spec_shed": (_I32, (_P, _U32)),
    "add": (_I32, (_P, _P, _U64, ctypes.POINTER(_U64))),
    "start": (_I32, (_P, _U64)),
    "send": (_I32, (_P, _U64, *_TEXT, ctypes.POINTER(_U64))),
    "close": (_I32, (_P, _U64)),
    "remove": (_I32, (_P, _U64)),
    "state": (_I32, (_P, _U64)),
    "pid": (_I32, (_P, _U64)),
    "request": (_I32, (_P, _U64, *_TEXT, *_TEXT, ctypes.POINTER(_RequestOptions), ctypes.POINTER(_U64))),
    "notify": (_I32, (_P, _U64, *_TEXT, *_TEXT)),
    "listen": (_I32, (_P, _U64, *_TEXT, _U64, ctypes.POINTER(_U64))),
    "cancel": (_I32, (_P, _U64, _U64, *_TEXT)),
    "respond": (_I32, (_P, _U64, _U64, *_TEXT)),
    "respond_error": (_I32, (_P, _U64, _U64, ctypes.c_int64, *_TEXT, *_TEXT)),
    "server_info": (_I32, (_P, _U64, ctypes.POINTER(_P), ctypes.POINTER(ctypes.c_size_t))),
    "server_capabilities": (_I32, (_P, _U64, ctypes.POINTER(_P), ctypes.POINTER(ctypes.c_size_t))),
}


class _Library:
    """The functions without their prefix. PyDLL, which keeps the interpreter's lock: no call here blocks, and a handle is used
    by one thread at a time."""

    def __init__(self) -> None:
        path = os.environ.get("MCP_SUPERVISED_LIBRARY") or "libmcp_supervised.so.0"
        try:
            library = ctypes.PyDLL(path)
        except OSError as error:
            raise ImportError(f"{error}; MCP_SUPERVISED_LIBRARY names the file of the library") from error
        for name, (result, arguments) in _PROTOTYPES.items():
            function = getattr(library, "mcp_supervised_" + name)
            function.restype = result
            function.argtypes = list(arguments)
            setattr(self, name, function)
        if self.abi_version() != _ABI:
            raise ImportError(f"{path} has the ABI number {self.abi_version()}; this module is written for {_ABI}")

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


_library: Optional[_Library] = None


def _lib() -> Any:
    global _library
    if _library is None:
        _library = _Library()
    return _library


def version() -> str:
    """The version of the library that is loaded."""
    return str(_lib().version().decode())


class Error(Exception):
    """A call that the library refused. ``status`` is the number, ``name`` for example "E_CLOSED"."""

    def __init__(self, status: int, text: str) -> None:
        self.status = status
        self.name = _lib().status_name(status).decode()
        super().__init__(f"{self.name}: {text}" if text else self.name)


class RequestError(Error):
    """A request or a stream that ended without an answer: E_CLOSED (lost), E_TIMEOUT, E_CANCELLED, E_EXHAUSTED, E_PROTOCOL or
    E_DELIVERY_DROPPED. With ``unread`` the dead server cannot have read a byte of it: even a tools/call is safe to repeat."""

    def __init__(self, event: "Event") -> None:
        self.event = event
        self.unread = bool(event.flags & Flag.UNREAD)
        super().__init__(event.status, event.payload.decode())


class RemoteError(Exception):
    """An error that the server answered. ``body`` is the raw error object."""

    def __init__(self, event: "Event") -> None:
        self.event = event
        self.code = event.error_code
        self.body = event.body
        try:
            message = json.loads(event.body).get("message", "")
        except (ValueError, AttributeError, RecursionError):
            # What is valid JSON may be longer or deeper than json.loads takes.
            message = event.body[:1000].decode(errors="replace")
        super().__init__(f"{self.code}: {message}")


class Refusal(Exception):
    """Raised by ``on_request``: the error the server gets for its question."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        self.code, self.message, self.data = code, message, data
        super().__init__(f"{code}: {message}")


class Raw:
    """A text that is JSON already and goes to the server as it is."""

    def __init__(self, text: "str | bytes") -> None:
        self.text = text.encode() if isinstance(text, str) else bytes(text)


@dataclasses.dataclass(frozen=True)
class Event:
    """One event, copied out. The fields are those of mcp_supervised_event."""

    kind: int
    flags: Flag
    peer: int
    request: int
    status: int
    message_kind: int
    error_code: int
    exit_code: int
    signal: int
    pid: int
    life: int
    attempt: int
    max_restarts: int
    delay_ms: int
    uptime_ms: int
    count: int
    unread_from: int
    era: int
    payload: bytes
    method: str
    body: bytes
    id: bytes

    def json(self) -> Any:
        """The body, parsed."""
        return json.loads(self.body)


def _copy(raw: _RawEvent) -> Event:
    payload = ctypes.string_at(raw.payload, raw.payload_len) if raw.payload else b""

    def piece(at: Optional[int], length: int) -> bytes:
        # The three are pieces of the payload.
        return payload[at - raw.payload:at - raw.payload + length] if at else b""

    return Event(
        raw.kind, Flag(raw.flags), raw.peer, raw.request, raw.status, raw.message_kind, raw.error_code, raw.exit_code,
        raw.signal, raw.pid, raw.life, raw.attempt, raw.max_restarts, raw.delay_ms, raw.uptime_ms, raw.count, raw.unread_from,
        raw.era, payload, piece(raw.method, raw.method_len).decode(), piece(raw.body, raw.body_len),
        piece(raw.id, raw.id_len),
    )


@dataclasses.dataclass(frozen=True)
class Result:
    """What the server answered. ``body`` is the JSON of the result as it came."""

    body: bytes
    flags: Flag

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def retried(self) -> bool:
        """Sent again after a restart: the dead server may have done the work, too."""
        return bool(self.flags & Flag.RETRIED)

    @property
    def input_required(self) -> bool:
        """The server asks for more: call again with ``input_responses`` and, if there was one, ``request_state``."""
        return bool(self.flags & Flag.INPUT_REQUIRED)


def _bytes(text: "str | bytes | os.PathLike[str]") -> bytes:
    return os.fsencode(text)


def _json(value: Any) -> bytes:
    if isinstance(value, Raw):
        return value.text
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def _object(members: Mapping[str, Any]) -> bytes:
    """A JSON object; values that are Raw go in as they are."""
    return b"{" + b",".join(_json(name) + b":" + _json(value) for name, value in members.items()) + b"}"


def _ms(seconds: float) -> int:
    """Seconds, as asyncio has them, to milliseconds, rounded up."""
    if seconds < 0:
        raise ValueError("a time below 0")
    return _UINT64_MAX if seconds == NEVER else min(-int(-seconds * 1000 // 1), _UINT64_MAX)


def _fits(name: str, value: int, bits: int) -> int:
    """ctypes cuts numbers that do not fit: -1 restarts would be endless ones."""
    if not 0 <= value < 1 << bits:
        raise ValueError(f"{name}: {value} does not fit")
    return value


class Stream:
    """Notifications that were asked for: ``async for event in stream``. It survives restarts of the server; each opening is
    acknowledged by a notification. It ends with StopAsyncIteration after a result of the server or ``cancel``, and otherwise
    with RequestError, RemoteError or, when the host is freed, Error.

    Read it or cancel it: what lies unread is kept, and with 1024 events in all streams the host takes nothing more from any
    server until they are read, or while somebody waits for an answer or an end."""

    def __init__(self, server: "Server") -> None:
        self._server = server
        self.id = 0
        self._queue: "deque[Event]" = deque()
        self._news = asyncio.Event()
        self._end: Optional[Event] = None
        self._failed: Optional[Error] = None
        self._cancelled = False
        self._counted = True

    def cancel(self, reason: str = "") -> None:
        """Ends the stream. What was queued can still be read."""
        if self._end is not None or self._failed is not None or self._cancelled:
            return
        try:
            self._server._call("cancel", self.id, *_text(reason.encode()))
        except Error as error:
            if error.name != "E_NO_REQUEST":  # its end is on the way already
                raise
        self._cancelled = True
        self._uncount()

    def _uncount(self) -> None:
        """Of a stream that is over nothing more comes. Whether what it left is read or not holds nobody back."""
        if self._counted:
            self._counted = False
            self._server._host._taken(len(self._queue))

    def __aiter__(self) -> "Stream":
        return self

    async def __anext__(self) -> Event:
        while not self._queue:
            if self._failed is not None:
                raise self._failed
            if self._end is not None:
                self._raise()
            self._news.clear()
            await self._news.wait()
        event = self._queue.popleft()
        if self._counted:
            self._server._host._taken(1)
        return event

    def _raise(self) -> None:
        end = self._end
        assert end is not None
        if end.kind == Kind.MESSAGE and end.message_kind == MessageKind.REMOTE_ERROR:
            raise RemoteError(end)
        if end.kind == Kind.ERROR and not self._cancelled:
            raise RequestError(end)
        raise StopAsyncIteration

    def _take(self, event: Event) -> None:
        if event.flags & Flag.COMPLETE:
            self._end = event
            self._uncount()
        else:
            self._server._host._queued += self._counted
            self._queue.append(event)
        self._news.set()


def _text(text: bytes) -> Tuple[bytes, int]:
    return text, len(text)


#: What a request is until it is awaited.
_Answer = Coroutine[Any, Any, Result]


class _Call:
    def __init__(self, future: "asyncio.Future[Event]", on_progress: Optional[Callable[[Any], None]]) -> None:
        self.future = future
        self.on_progress = on_progress


class Server:
    """One supervised server, through all its lives. Made by Host.add."""

    def __init__(
        self,
        host: "Host",
        on_request: Optional[Callable[[str, Any], Any]],
        on_event: Optional[Callable[[Event], None]],
    ) -> None:
        self._host = host
        self._on_request = on_request
        self._on_event = on_event
        self._calls: Dict[int, _Call] = {}
        self._streams: Dict[int, Stream] = {}
        self._answers: "set[asyncio.Task[None]]" = set()
        self._writable = asyncio.Event()
        self._closed: "asyncio.Future[None]" = host._loop.create_future()
        self._closing = False
        self.peer = 0

    def _call(self, name: str, *arguments: Any) -> int:
        return self._host._call(name, self.peer, *arguments)

    def start(self) -> None:
        self._call("start")

    def close(self) -> None:
        """Ends the server for good; ``await closed()`` for its end."""
        self._call("close")
        if not self._closing and not self._closed.done():
            # It goes on inside poll: no reader may hold it up.
            self._closing = True
            self._host._wait()

    async def closed(self) -> None:
        """Returns when the last event of the server has come: after close, or when its budget is spent."""
        await asyncio.shield(self._closed)

    def remove(self) -> None:
        """Forgets a server that has ended."""
        self._call("remove")
        self._host._servers.pop(self.peer, None)
        if not self._closed.done():  # it was never started
            self._closed.set_result(None)

    @property
    def state(self) -> State:
        return State(self._call("state"))

    @property
    def pid(self) -> int:
        return self._call("pid")

    def server_info(self) -> Tuple[bytes, bool]:
        """The JSON text, and whether it is stale."""
        return self._told("server_info")

    def server_capabilities(self) -> Tuple[bytes, bool]:
        """The JSON text, and whether it is stale."""
        return self._told("server_capabilities")

    def _told(self, name: str) -> Tuple[bytes, bool]:
        at, length = _P(), ctypes.c_size_t()
        stale = self._call(name, ctypes.byref(at), ctypes.byref(length))
        return ctypes.string_at(at, length.value) if at.value else b"", bool(stale)

    def send(self, line: "str | bytes") -> int:
        """One raw JSON-RPC line, untracked; its number."""
        number = _U64()
        self._call("send", *_text(line.encode() if isinstance(line, str) else line), ctypes.byref(number))
        return number.value

    def notify(self, method: str, params: Any = None) -> None:
        self._call("notify", *_text(method.encode()), *_text(_json({} if params is None else params)))

    async def request(
        self,
        method: str,
        params: Any = None,
        *,
        timeout: float = 0,
        max_timeout: float = 0,
        on_progress: Optional[Callable[[Any], None]] = None,
        meta_verbatim: bool = False,
    ) -> Result:
        """Sends a request of any method and waits for its end. Timeouts are seconds, 0 is the server's default, NEVER none.
        ``on_progress`` gets the params of each progress notification. Cancelling the task cancels the request."""
        options = _RequestOptions(
            size=ctypes.sizeof(_RequestOptions),
            timeout_ms=_ms(timeout),
            max_timeout_ms=_ms(max_timeout),
            flags=(1 if on_progress else 0) | (2 if meta_verbatim else 0),
        )
        number = _U64()
        text = _json({} if params is None else params)
        self._call("request", *_text(method.encode()), *_text(text), ctypes.byref(options), ctypes.byref(number))
        call = _Call(self._host._loop.create_future(), on_progress)
        self._calls[number.value] = call
        self._host._wait()
        try:
            event = await call.future
        except asyncio.CancelledError:
            # It completes all the same, with E_CANCELLED, and is forgotten then.
            try:
                self._call("cancel", number.value, *_text(b""))
            except Error:
                pass
            raise
        if event.kind != Kind.MESSAGE:
            raise RequestError(event)
        if event.message_kind != MessageKind.RESULT:
            raise RemoteError(event)
        return Result(event.body, event.flags)

    # Typed calls. Keywords are those of `request`, and `meta` for a `_meta` of the host's own.

    def _typed(self, method: str, members: Dict[str, Any], options: Dict[str, Any]) -> _Answer:
        for option, name in (("meta", "_meta"), ("input_responses", "inputResponses"), ("request_state", "requestState")):
            value = options.pop(option, None)
            if value is not None:
                members[name] = value
        return self.request(method, Raw(_object(members)), **options)

    def _list(self, method: str, cursor: Optional[str], options: Dict[str, Any]) -> _Answer:
        return self._typed(method, {} if cursor is None else {"cursor": cursor}, options)

    async def discover(self, **options: Any) -> Result:
        return await self._typed("server/discover", {}, options)

    async def list_tools(self, cursor: Optional[str] = None, **options: Any) -> Result:
        return await self._list("tools/list", cursor, options)

    async def list_resources(self, cursor: Optional[str] = None, **options: Any) -> Result:
        return await self._list("resources/list", cursor, options)

    async def list_resource_templates(self, cursor: Optional[str] = None, **options: Any) -> Result:
        return await self._list("resources/templates/list", cursor, options)

    async def list_prompts(self, cursor: Optional[str] = None, **options: Any) -> Result:
        return await self._list("prompts/list", cursor, options)

    async def call_tool(self, name: str, arguments: Any = None, **options: Any) -> Result:
        """Also takes ``input_responses`` and ``request_state``, after a result with ``input_required``."""
        members = {"name": name, "arguments": {} if arguments is None else arguments}
        return await self._typed("tools/call", members, options)

    async def read_resource(self, uri: str, **options: Any) -> Result:
        return await self._typed("resources/read", {"uri": uri}, options)

    async def get_prompt(self, name: str, arguments: Any = None, **options: Any) -> Result:
        members = {"name": name, "arguments": {} if arguments is None else arguments}
        return await self._typed("prompts/get", members, options)

    async def complete_prompt(self, prompt: str, argument: str, begun: str, known: Any = None, **options: Any) -> Result:
        """Proposals for an argument of a prompt; ``known`` are the arguments that are settled."""
        return await self._complete({"type": "ref/prompt", "name": prompt}, argument, begun, known, options)

    async def complete_resource(self, template: str, argument: str, begun: str, known: Any = None, **options: Any) -> Result:
        """Proposals for a variable of a resource template."""
        return await self._complete({"type": "ref/resource", "uri": template}, argument, begun, known, options)

    def _complete(self, reference: Any, argument: str, begun: str, known: Any, options: Dict[str, Any]) -> _Answer:
        members = {"ref": reference, "argument": {"name": argument, "value": begun}}
        if known is not None:
            members["context"] = {"arguments": known}
        return self._typed("completion/complete", members, options)

    def listen(
        self, *, tools: bool = False, prompts: bool = False, resources: bool = False, uris: Sequence[str] = ()
    ) -> Stream:
        """Opens a stream of notifications."""
        wanted: Dict[str, Any] = {}
        for name, on in (("tools", tools), ("prompts", prompts), ("resources", resources)):
            if on:
                wanted[name + "ListChanged"] = True
        if uris:
            wanted["resourceSubscriptions"] = list(uris)
        stream, number = Stream(self), _U64()
        self._call("listen", *_text(_json(wanted)), 0, ctypes.byref(number))
        stream.id = number.value
        self._streams[stream.id] = stream
        return stream

    async def _answer(self, event: Event) -> None:
        """Answers a request of the server."""
        try:
            if self._on_request is None:
                raise Refusal(-32601, f"this client does not answer {event.method}")
            result = self._on_request(event.method, event.json() if event.body else None)
            if inspect.isawaitable(result):
                result = await result
            await self._respond("respond", event.request, *_text(_json(result)))
            return
        except Refusal as refused:
            refusal = refused
        except Exception as error:  # noqa: BLE001 - the server has to be told, and the loop's handler
            refusal = Refusal(-32603, "the client failed to answer")
            self._host._loop.call_exception_handler({"message": f"{event.method} of a server failed", "exception": error})
        data = b"" if refusal.data is None else _json(refusal.data)
        message = refusal.message.encode()
        await self._respond("respond_error", event.request, refusal.code, *_text(message), *_text(data))

    async def _respond(self, name: str, *arguments: Any) -> None:
        """Goes on when there is room. The server may have died, been closed or taken its question back meanwhile: then nobody
        waits for the answer."""
        while True:
            try:
                self._call(name, *arguments)
                return
            except Error as error:
                if error.name in ("E_CLOSED", "E_NO_REQUEST", "E_NO_PEER", "E_BAD_HANDLE"):
                    return
                if error.name != "E_WOULD_BLOCK":
                    raise
                self._writable.clear()
            await self._writable.wait()

    def _take(self, event: Event) -> None:
        over = bool(event.flags & Flag.COMPLETE)
        if event.request in self._streams:
            stream = self._streams.pop(event.request) if over else self._streams[event.request]
            stream._take(event)
        elif event.request in self._calls:
            call = self._calls.pop(event.request) if over else self._calls[event.request]
            if over:
                self._host._waiting -= 1
                if not call.future.done():
                    call.future.set_result(event)
            elif call.on_progress is not None:
                progress = call.on_progress
                self._host._call_back(lambda _: progress(event.json()), None)
        elif event.kind == Kind.MESSAGE and event.message_kind == MessageKind.REQUEST and event.request:
            task = self._host._loop.create_task(self._answer(event))
            self._answers.add(task)
            task.add_done_callback(self._answers.discard)
        elif self._on_event is not None:
            self._host._call_back(self._on_event, event)
        if event.kind in (Kind.WRITABLE, Kind.RECONNECT) or event.flags & Flag.FINAL:
            self._writable.set()
        if event.flags & Flag.FINAL:
            if self._closing:
                self._closing = False
                self._host._waiting -= 1
            if not self._closed.done():
                self._closed.set_result(None)


class Host:
    """The handle, in an asyncio loop: ``async with Host() as host``, or ``Host()`` inside a coroutine and ``host.free()``."""

    def __init__(self, *, manual_clock: bool = False, log_level: Optional[LogLevel] = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._servers: Dict[int, Server] = {}
        self._process = os.getpid()
        self._handle = _P()
        self._events = (_RawEvent * _EVENTS)()
        self._queued = self._waiting = 0
        self._watched = False
        self._broken: Optional[Error] = None
        self._shut_down: "asyncio.Future[None]" = self._loop.create_future()
        config, why = _P(), ctypes.create_string_buffer(256)
        lib = _lib()
        status = lib.config_new(ctypes.byref(config))
        if status < 0:
            raise Error(status, "")
        lib.config_manual_clock(config, int(manual_clock))
        if log_level is not None:
            lib.config_log_level(config, int(log_level))
        status = lib.new(config, ctypes.byref(self._handle), why, len(why))
        lib.config_free(config)
        if status < 0:
            raise Error(status, why.value.decode())
        self._fd = self._call("fd")
        self._watch()

    async def __aenter__(self) -> "Host":
        return self

    async def __aexit__(self, *_: Any) -> None:
        self.free()

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            _lib().free(self._handle)

    def free(self) -> None:
        """Kills what still runs, within a second. Requests and streams that are under way end with E_BAD_HANDLE."""
        if not self._handle:
            return
        self._unwatch()
        status = _lib().free(self._handle)
        if status < 0:
            raise Error(status, "")
        self._handle = _P()
        self._abandon(Error(-3, "the host was freed"))

    def _unwatch(self) -> None:
        # In the child of a fork the loop's epoll is that of the parent, who would lose sight of the descriptor.
        if self._watched and self._process == os.getpid():
            self._loop.remove_reader(self._fd)
        self._watched = False

    def _abandon(self, error: Error) -> None:
        """Tells everybody who waits that nothing more comes."""
        for server in self._servers.values():
            for call in server._calls.values():
                if not call.future.done():
                    call.future.set_exception(error)
                    call.future.exception()  # nobody may be left to look at it
            for stream in server._streams.values():
                stream._failed = error
                stream._news.set()
            server._calls.clear()
            server._streams.clear()
            server._writable.set()
            if not server._closed.done():
                server._closed.set_result(None)
        if not self._shut_down.done():
            self._shut_down.set_result(None)

    async def shutdown(self, grace: float = 10) -> None:
        """Closes every server, kills what is left after ``grace`` seconds, and waits for the end."""
        self._call("shutdown", _ms(grace))
        self._wait()  # it goes on inside poll: no reader may hold it up
        try:
            await asyncio.shield(self._shut_down)
        finally:
            self._waiting -= 1

    def wakeup(self) -> None:
        """From any thread."""
        self._call("wakeup")

    def advance(self, seconds: float) -> None:
        """Moves a manual clock."""
        self._call("advance", _fits("advance", round(seconds * 1e9), 64))

    def add(
        self,
        program: "str | os.PathLike[str]",
        *args: str,
        cwd: "str | os.PathLike[str] | None" = None,
        env: Optional[Mapping[str, str]] = None,
        inherit_env: bool = False,
        mode: Optional[Mode] = None,
        client_info: Optional[Tuple[str, str]] = None,
        client_capabilities: Any = None,
        restart: Optional[Tuple[int, float, float]] = None,
        stop_grace: Optional[Tuple[float, float]] = None,
        timeout: float = 0,
        max_timeout: float = 0,
        probe_timeout: float = 0,
        start_timeout: float = 0,
        retry_lost_requests: bool = False,
        rediscover: bool = False,
        server_log_level: str = "",
        shed: bool = False,
        limits: Optional[Mapping[int, int]] = None,
        on_request: Optional[Callable[[str, Any], Any]] = None,
        on_event: Optional[Callable[[Event], None]] = None,
    ) -> Server:
        """Adds a server; ``start`` starts it. Times are seconds. ``restart`` is (most, delay, window).

        ``on_request(method, params)`` answers what servers of older revisions ask (what ``client_capabilities`` declares): it
        returns the result, or raises ``Refusal``; it may be a coroutine function. Without it everything is refused.
        ``on_event`` gets every event that belongs to no call, stream or request: READY, CLOSE, RECONNECT, EXHAUSTED, LOG, ..."""
        spec = _P()
        self._judge(_lib().spec_new(*_text(_bytes(program)), ctypes.byref(spec)))
        try:
            def put(name: str, *arguments: Any) -> None:
                status = getattr(_lib(), "spec_" + name)(spec, *arguments)
                if status < 0:
                    raise Error(status, f"{name} cannot be used")

            for arg in args:
                put("arg", *_text(_bytes(arg)))
            if cwd is not None:
                put("cwd", *_text(_bytes(cwd)))
            if inherit_env:
                put("env_mode", 2)
            for name, value in (env or {}).items():
                put("env", *_text(_bytes(name)), *_text(_bytes(value)))
            if mode is not None:
                put("mode", int(mode))
            if client_info is not None:
                put("client_info", *_text(client_info[0].encode()), *_text(client_info[1].encode()))
            if client_capabilities is not None:
                put("client_capabilities", *_text(_json(client_capabilities)))
            if restart is not None:
                put("restart", _fits("restart", restart[0], 32), _ms(restart[1]), _ms(restart[2]))
            if stop_grace is not None:
                put("stop_grace", _ms(stop_grace[0]), _ms(stop_grace[1]))
            if timeout or max_timeout:
                put("request_timeouts", _ms(timeout), _ms(max_timeout))
            if probe_timeout or start_timeout:
                put("start_timeouts", _ms(probe_timeout), _ms(start_timeout))
            put("retry_lost_requests", int(retry_lost_requests))
            put("rediscover", int(rediscover))
            put("server_log_level", *_text(server_log_level.encode()))
            put("shed", int(shed))
            for kind, limit in (limits or {}).items():
                put("limit", _fits("limits", kind, 32), _fits("limits", limit, 64))
            server, number = Server(self, on_request, on_event), _U64()
            self._call("add", spec, 0, ctypes.byref(number))
        finally:
            _lib().spec_free(spec)
        server.peer = number.value
        self._servers[server.peer] = server
        return server

    def _call(self, name: str, *arguments: Any) -> int:
        if not self._handle:
            raise Error(-3, "the host was freed")
        if self._broken is not None:
            raise self._broken
        return self._judge(getattr(_lib(), name)(self._handle, *arguments))

    def _judge(self, status: int) -> int:
        if status >= 0:
            return status
        text, length = _P(), ctypes.c_size_t()
        # E_BAD_HANDLE, E_BUSY, E_FORKED and E_PANIC leave the text of an earlier error in place.
        if self._handle and not -6 <= status <= -3:
            _lib().last_error(self._handle, ctypes.byref(text), ctypes.byref(length))
        raise Error(status, ctypes.string_at(text, length.value).decode() if text.value else "")

    def _call_back(self, function: Callable[[Any], None], argument: Any) -> None:
        """A callback that fails must not take the events behind it along."""
        try:
            function(argument)
        except Exception as error:  # noqa: BLE001 - whatever it was, the loop's handler is told
            self._loop.call_exception_handler({"message": f"{function!r} failed", "exception": error})

    # A reader that is too slow stops the host, and so, through its full pipe, the server. But never while somebody waits for an
    # answer or an end: it may be the reader itself, who would wait for ever.

    def _watch(self) -> None:
        wanted = bool(self._handle) and self._broken is None and (self._queued < _ENOUGH or self._waiting > 0)
        if wanted and not self._watched:
            self._loop.add_reader(self._fd, self._on_readable)
            self._watched = True
        elif not wanted:
            self._unwatch()

    def _taken(self, count: int) -> None:
        self._queued -= count
        self._watch()

    def _wait(self) -> None:
        self._waiting += 1
        self._watch()

    def _on_readable(self) -> None:
        try:
            count = self._call("poll", self._events, ctypes.sizeof(_RawEvent), _EVENTS, 0)
        except Error as error:
            # The handle is of no use any more, and its descriptor would call for ever.
            self._broken = error
            self._unwatch()
            self._abandon(error)
            raise
        # Copied before anybody is told: a callback may call what ends the payloads.
        for event in [_copy(self._events[i]) for i in range(count)]:
            if event.kind == Kind.SHUTDOWN:
                if not self._shut_down.done():
                    self._shut_down.set_result(None)
            elif event.peer in self._servers:
                self._servers[event.peer]._take(event)
        self._watch()

