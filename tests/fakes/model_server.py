"""A model provider on loopback that plays what a test tells it, badly where it should.

    with ModelServer(plays) as server:
        ... server.url ...                       # http://127.0.0.1:PORT
        server.requests                          # what came, in order

A play is a dict; each request takes the next one, and the last is repeated.

    status   200           HTTP status
    body     bytes or str  of the reply; a callable gets the request and returns it
    headers  {}            further ones; content-type is application/json unless given
    how      "plain"       or: gzip, gzip_lie (says gzip, is plain), cut (closes in the middle),
                           chunk_cut (closes in the middle of a chunk), reset (TCP reset before a
                           reply), silent_reset (headers, then a reset), drip (a byte at a time until
                           the other side leaves), short (Content-Length larger than the body),
                           huge (50 MB), hold (waits until release() and then answers plainly)

Standard library only. `python3 model_server.py` does nothing by itself.
"""

import gzip
import json
import socket
import struct
import threading
import time


class Request:
    def __init__(self, method, path, headers, body):
        self.method, self.path, self.headers, self.body = method, path, headers, body

    def json(self):
        return json.loads(self.body)


def chat(arguments, tool="propose", finish="tool_calls", out_tokens=40, prompt_tokens=4000):
    """An answer of OpenAI Chat Completions with one tool call."""
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments)
    return json.dumps({
        "id": "chatcmpl-1", "object": "chat.completion", "model": "fake-model",
        "choices": [{"index": 0, "finish_reason": finish, "message": {
            "role": "assistant", "content": None, "tool_calls": [
                {"id": "call_1", "type": "function",
                 "function": {"name": tool, "arguments": arguments}}]}}],
        "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": out_tokens,
                  "total_tokens": prompt_tokens + out_tokens}})


def anthropic(arguments, tool="propose", stop="tool_use", **more):
    """An answer of Anthropic Messages with one tool call."""
    return json.dumps({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "fake-model",
        "content": [{"type": "tool_use", "id": "toolu_1", "name": tool, "input": arguments}],
        "stop_reason": stop, "usage": {"input_tokens": 9000, "output_tokens": 40}, **more})


def bedrock(arguments, tool="propose", stop="tool_use"):
    """An answer of Bedrock Converse with one tool call."""
    return json.dumps({
        "output": {"message": {"role": "assistant", "content": [
            {"toolUse": {"toolUseId": "tooluse_1", "name": tool, "input": arguments}}]}},
        "stopReason": stop, "usage": {"inputTokens": 9000, "outputTokens": 40}})


class ModelServer:
    def __init__(self, plays):
        self.plays = list(plays)
        self.requests = []
        self.bytes = 0  # that ever came, requests or not
        self._lock = threading.Lock()
        self._released = threading.Event()
        self._holding = threading.Event()
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._socket.settimeout(0.1)
        self.port = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._stop = False
        self._threads = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._stop = True
        self._released.set()
        self._thread.join()
        self._socket.close()
        for thread in self._threads:
            thread.join(5)

    def wait_held(self, seconds=60):
        """Until a request is being held."""
        return self._holding.wait(seconds)

    def release(self):
        self._released.set()

    # ----- inside

    def _accept(self):
        while not self._stop:
            try:
                connection, _ = self._socket.accept()
            except (TimeoutError, socket.timeout):
                continue
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            thread.start()
            self._threads.append(thread)

    def _serve(self, connection):
        try:
            with connection:
                connection.settimeout(60)
                request = self._read(connection)
                if request is None:
                    return
                with self._lock:
                    self.requests.append(request)
                    play = self.plays[0] if len(self.plays) == 1 else self.plays.pop(0)
                self._play(connection, play, request)
        except OSError:
            pass  # the other side has left, which several plays are about

    def _read(self, connection):
        data = b""
        while b"\r\n\r\n" not in data:
            more = connection.recv(65536)
            self.bytes += len(more)
            if not more:
                return None
            data += more
        head, body = data.split(b"\r\n\r\n", 1)
        lines = head.decode("latin-1").split("\r\n")
        method, path, _ = lines[0].split(" ", 2)
        headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        while len(body) < int(headers.get("content-length", 0)):
            more = connection.recv(65536)
            self.bytes += len(more)
            if not more:
                return None
            body += more
        return Request(method, path, headers, body)

    def _play(self, connection, play, request):
        how = play.get("how", "plain")
        status = play.get("status", 200)
        body = play.get("body", b"")
        if callable(body):
            body = body(request)
        if isinstance(body, str):
            body = body.encode("utf-8", "surrogatepass")
        headers = {"content-type": "application/json", **play.get("headers", {})}
        if how == "reset":
            return self._reset(connection)
        if how == "hold":
            self._holding.set()
            self._released.wait(120)
        if how == "gzip":
            body = gzip.compress(body)
            headers["content-encoding"] = "gzip"
        if how == "gzip_lie":
            headers["content-encoding"] = "gzip"
        if how == "huge":
            return self._huge(connection, status, headers)
        if how == "chunk_cut":
            self._head(connection, status, {**headers, "transfer-encoding": "chunked"})
            connection.sendall(b"%x\r\n" % len(body) + body[: len(body) // 2])
            return None
        length = len(body) + (100 if how == "short" else 0)
        self._head(connection, status, {**headers, "content-length": str(length)})
        if how == "silent_reset":
            return self._reset(connection)
        if how == "cut":
            connection.sendall(body[: len(body) // 2])
        elif how == "drip":
            for byte in body:
                if self._stop:
                    return None
                connection.sendall(bytes([byte]))
                time.sleep(0.2)
        else:
            connection.sendall(body)
        return None

    @staticmethod
    def _head(connection, status, headers):
        lines = [f"HTTP/1.1 {status} Played", "connection: close"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))

    @staticmethod
    def _reset(connection):
        # Linger on with no time: close() sends RST instead of FIN.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    def _huge(self, connection, status, headers):
        size = 50_000_000
        self._head(connection, status, {**headers, "content-length": str(size)})
        block = b" " * 65536
        for _ in range(0, size, len(block)):
            connection.sendall(block)
