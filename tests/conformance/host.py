#!/usr/bin/env python3
"""A host over the C interface that the official conformance suite judges: host.py URL

The suite starts it for one scenario, with a server on HTTP at URL, and looks at what that server is asked. The host gives the
library `bridge.py URL` as its server, and does what a scenario wants of a client: lists the tools, calls each of them, and answers
what it is asked in return. MCP_SUPERVISED_LIBRARY names the shared library.
"""

import ctypes
import json
import os
import re
import select
import sys
from ctypes import Structure, byref, c_char_p, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p

HERE = os.path.dirname(os.path.abspath(__file__))
REVISION = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "2026-07-28")
CAPABILITIES = {"elicitation": {"form": {}}}
UNRELATED = "test_mrtr_unrelated"
SECONDS = 30


def constants():
    """The numbers of the header, by their names without the prefix."""
    with open(os.path.join(HERE, "../../include/mcp_supervised.h"), encoding="utf-8") as header:
        text = header.read()
    found = {name: int(value) for name, value in re.findall(r"\bMCP_SUPERVISED_(\w+) = (-?\d+)", text)}
    flags = re.findall(r"#define MCP_SUPERVISED_(FLAG_\w+) \(1u << (\d+)\)", text)
    found.update((name, 1 << int(bit)) for name, bit in flags)
    return found


C = constants()


class Event(Structure):
    """mcp_supervised_event"""

    _fields_ = [
        *((name, c_uint32) for name in ("kind", "flags")),
        *((name, c_uint64) for name in ("peer", "peer_data", "request", "user_data")),
        ("status", c_int32),
        ("message_kind", c_uint32),
        ("error_code", c_int64),
        *((name, c_int32) for name in ("exit_code", "signal", "pid")),
        *((name, c_uint32) for name in ("life", "attempt", "max_restarts")),
        *((name, c_uint64) for name in ("delay_ms", "uptime_ms", "count", "unread_from")),
        *((name, c_uint32) for name in ("era", "reserved")),
        *(
            field
            for name in ("payload", "method", "body", "id")
            for field in ((name, c_void_p), (name + "_len", c_size_t))
        ),
    ]

    def text(self, name):
        """One of the slices, copied: it is valid until the next poll only."""
        at = getattr(self, name)
        return ctypes.string_at(at, getattr(self, name + "_len")).decode() if at else ""


class Refused(Exception):
    """The server's error, or the library's."""


class Unsupported(Refused):
    """The server has said that it cannot do that, so it was not asked."""


class Client:
    """One server behind the library, asked one thing at a time."""

    def __init__(self, words, mode):
        self.library = ctypes.CDLL(os.environ["MCP_SUPERVISED_LIBRARY"])
        self.handle, self.peer = c_void_p(), c_uint64()
        self.events = (Event * 32)()
        why = ctypes.create_string_buffer(256)
        if self.library.mcp_supervised_new(None, byref(self.handle), why, c_size_t(len(why))) < 0:
            raise Refused(why.value.decode())
        spec = c_void_p()
        self.must("spec_new", *text(words[0]), byref(spec))
        for word in words[1:]:
            self.must("spec_arg", spec, *text(word))
        self.must("spec_mode", spec, c_uint32(mode))
        self.must("spec_client_info", spec, *text("mcp-supervised-conformance"), *text("1.0.0"))
        self.must("spec_client_capabilities", spec, *text(json.dumps(CAPABILITIES)))
        self.must("spec_env_mode", spec, c_uint32(C["ENV_INHERIT"]))
        self.must("spec_stderr", spec, c_uint32(C["STDERR_INHERIT"]))
        self.must("add", self.handle, spec, c_uint64(0), byref(self.peer))
        self.library.mcp_supervised_spec_free(spec)
        self.must("start", self.handle, self.peer)
        self.waits = select.poll()
        self.waits.register(self.library.mcp_supervised_fd(self.handle), select.POLLIN)

    def must(self, name, *arguments):
        status = getattr(self.library, "mcp_supervised_" + name)(*arguments)
        if status < 0:
            kind = Unsupported if status == C["E_UNSUPPORTED"] else Refused
            raise kind(f"{name}: {self.why(status)}")

    def why(self, status):
        """What the library says of its last refusal."""
        at, length = c_char_p(), c_size_t()
        if self.handle and self.library.mcp_supervised_last_error(self.handle, byref(at), byref(length)) == 0:
            return f"{status}: {ctypes.string_at(at, length.value).decode()}"
        return str(status)

    def take(self):
        """The next events. What the server asks is answered on the way."""
        if not self.waits.poll(SECONDS * 1000):
            raise Refused(f"nothing happens in {SECONDS} s")
        taken = self.library.mcp_supervised_poll(
            self.handle, self.events, c_size_t(ctypes.sizeof(Event)), c_size_t(len(self.events)), c_int32(0)
        )
        if taken < 0:
            raise Refused(f"poll: {self.why(taken)}")
        for event in self.events[:taken]:
            if event.kind == C["EVENT_MESSAGE"] and event.message_kind == C["MESSAGE_REQUEST"]:
                self.answer(event)
            if event.kind == C["EVENT_ERROR"] and not event.request:
                print("host:", event.text("payload"), file=sys.stderr)
        return self.events[:taken]

    def until(self, wanted):
        """Takes events up to one that is wanted."""
        while True:
            for event in self.take():
                if event.flags & C["FLAG_FINAL"] and not wanted(event):
                    raise Refused("the server is gone")
                if wanted(event):
                    return event

    def answer(self, event):
        token, method = c_uint64(event.request), event.text("method")
        if method == "elicitation/create":
            accepted = json.dumps(elicited(json.loads(event.text("body"))))
            self.must("respond", self.handle, self.peer, token, *text(accepted))
        else:
            refusal = (c_int64(-32601), *text(f"{method} is not known"), *text(""))
            self.must("respond_error", self.handle, self.peer, token, *refusal)

    def once(self, method, params):
        """One request and its completion: the result, and whether it asks for input."""
        request = c_uint64()
        arguments = (*text(method), *text(json.dumps(params)), None, byref(request))
        self.must("request", self.handle, self.peer, *arguments)
        done = self.until(lambda event: event.request == request.value and event.flags & C["FLAG_COMPLETE"])
        if done.kind != C["EVENT_MESSAGE"] or done.message_kind != C["MESSAGE_RESULT"]:
            raise Refused(f"{method}: {done.text('payload')}")
        return json.loads(done.text("body")), bool(done.flags & C["FLAG_INPUT_REQUIRED"])

    def request(self, method, params=None, meanwhile=None):
        """A request, with as many rounds of input as the server asks for."""
        params = dict(params or {})
        while True:
            result, wants_input = self.once(method, params)
            if not wants_input:
                return result
            if meanwhile:
                meanwhile()
            for key in ("inputResponses", "requestState"):
                params.pop(key, None)
            asked = result.get("inputRequests")
            if asked:
                params["inputResponses"] = {key: elicited(entry.get("params", {})) for key, entry in asked.items()}
            if "requestState" in result:
                params["requestState"] = result["requestState"]

    def close(self):
        self.must("close", self.handle, self.peer)
        self.until(lambda event: event.flags & C["FLAG_FINAL"])
        self.library.mcp_supervised_free(self.handle)


def text(value):
    """A text as the interface takes it: where it is, and its length in bytes."""
    data = value.encode()
    return c_char_p(data), c_size_t(len(data))


def elicited(params):
    """Somebody who agrees: what has a default keeps it, and what must be there is made up."""
    schema = params.get("requestedSchema", {})
    made_up = {"boolean": True, "integer": 1, "number": 1, "array": []}
    content = {}
    for name, what in schema.get("properties", {}).items():
        if "default" in what:
            content[name] = what["default"]
        elif name in schema.get("required", []):
            content[name] = what["enum"][0] if "enum" in what else made_up.get(what.get("type"), "x")
    return {"action": "accept", "content": content}


def arguments_for(tool):
    properties = tool.get("inputSchema", {}).get("properties", {})
    return {name: 2 if what.get("type") in ("number", "integer") else "x" for name, what in properties.items()}


def play(client):
    """What every scenario wants, each of another server: its tools, and a call of each."""
    try:
        tools = client.request("tools/list")["tools"]
    except Unsupported as why:
        print(f"host: {why}", file=sys.stderr)
        return
    named = {tool["name"]: tool for tool in tools}
    unrelated = None
    if UNRELATED in named:
        # A call between two rounds of another: nothing of that may be in it.
        unrelated = lambda: client.request("tools/call", {"name": UNRELATED, "arguments": {}})
    for name, tool in named.items():
        if name == UNRELATED:
            continue
        arguments = arguments_for(tool)
        if name == "json_schema_echo":
            arguments = {"schema": named["json_schema_2020_12_tool"]["inputSchema"]}
        try:
            client.request("tools/call", {"name": name, "arguments": arguments}, unrelated)
        except Refused as why:
            # Some tools are there to be refused; the suite knows which.
            print(f"host: {name}: {why}", file=sys.stderr)


def main():
    modern = REVISION >= "2026-07-28"
    bridge = [sys.executable, os.path.join(HERE, "bridge.py"), sys.argv[-1]]
    client = Client(bridge, C["MODE_AUTO"] if modern else C["MODE_LEGACY"])
    ready = client.until(lambda event: event.kind == C["EVENT_READY"])
    if ready.era != (C["ERA_MODERN"] if modern else C["ERA_LEGACY"]):
        raise Refused(f"{ready.text('payload')} is spoken, {REVISION} was expected")
    play(client)
    client.close()


main()
