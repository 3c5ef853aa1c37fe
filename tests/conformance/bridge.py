#!/usr/bin/env python3
"""A server on standard input and output that is a door to one on HTTP: bridge.py URL

The client scenarios of the official conformance suite are servers on HTTP, and the library talks to processes. Each line that comes
in becomes a POST, each message that comes back, as the answer or in a stream of events, becomes a line. The headers of HTTP are
made here from the body, so what the suite says about headers is about this program and not about the library.
"""

import json
import sys
import threading
import urllib.error
import urllib.request

META = "io.modelcontextprotocol/"


def messages_of(stream):
    """The data of each event of an event stream."""
    data = []
    for raw in stream:
        line = raw.decode().rstrip("\r\n")
        if line.startswith("data:"):
            data.append(line[len("data:"):].lstrip(" "))
        elif not line and data:
            yield "\n".join(data)
            data = []
    if data:
        yield "\n".join(data)


class Bridge:
    def __init__(self, url):
        self.url = url
        self.output = threading.Lock()
        # Of a server that has sessions: its id and the version that was agreed on.
        self.session = None
        self.version = None

    def emit(self, text):
        """A message as one line. It is not parsed and built anew: what the server wrote is what the client has to read."""
        line = " ".join(text.splitlines()).strip()
        if line:
            with self.output:
                sys.stdout.write(line + "\n")
                sys.stdout.flush()

    def headers(self, message):
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        meta = params.get("_meta")
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        version = (meta if isinstance(meta, dict) else {}).get(META + "protocolVersion") or self.version
        if version:
            headers["MCP-Protocol-Version"] = version
        if "method" in message:
            headers["Mcp-Method"] = message["method"]
        name = params.get("name") or params.get("uri")
        if isinstance(name, str):
            headers["Mcp-Name"] = name
        if self.session:
            headers["Mcp-Session-Id"] = self.session
        return headers

    def forward(self, line):
        message = json.loads(line)
        method = message.get("method")
        try:
            answer = urllib.request.urlopen(urllib.request.Request(self.url, line, self.headers(message)), timeout=60)
        except urllib.error.HTTPError as error:
            # An answer too: its body is the JSON-RPC error.
            answer = error
        except OSError as error:
            if "id" in message and method:
                failed = {"code": -32603, "message": f"no connection: {error}"}
                self.emit(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": failed}))
            return
        self.session = answer.headers.get("Mcp-Session-Id") or self.session
        if method == "notifications/initialized" and self.session:
            self.open_stream()
        is_stream = "text/event-stream" in (answer.headers.get("Content-Type") or "")
        for text in messages_of(answer) if is_stream else [answer.read().decode()]:
            if method == "initialize":
                self.version = json.loads(text).get("result", {}).get("protocolVersion") or self.version
            if text.strip() and text.lstrip()[0] not in "{[":
                print(f"bridge: no JSON: {text[:200]}", file=sys.stderr)
                continue
            self.emit(text)

    def open_stream(self):
        """The stream on which a server with sessions says what it says unasked. A request that comes before it is there could
        make the server say something that nobody hears."""
        is_open = threading.Event()

        def read():
            headers = {"Accept": "text/event-stream", "Mcp-Session-Id": self.session}
            if self.version:
                headers["MCP-Protocol-Version"] = self.version
            try:
                stream = urllib.request.urlopen(urllib.request.Request(self.url, None, headers), timeout=60)
                is_open.set()
                for text in messages_of(stream):
                    self.emit(text)
            except OSError as error:
                # A server need not have one.
                print(f"bridge: no stream: {error}", file=sys.stderr)
            finally:
                is_open.set()

        threading.Thread(target=read, daemon=True).start()
        is_open.wait(5)

    def run(self):
        for line in sys.stdin.buffer:
            line = line.strip()
            # The handshake stays in order; everything else may overtake, as on HTTP.
            if b'"initialize"' in line or b'"notifications/initialized"' in line:
                self.forward(line)
            elif line:
                threading.Thread(target=self.forward, args=(line,), daemon=True).start()


Bridge(sys.argv[1]).run()
