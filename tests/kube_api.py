"""A small API server for kubectl, whose pods are processes of this machine.

It answers what ``kubectl get pods``, ``exec`` and ``debug`` ask for, over HTTP and WebSocket
(subprotocol v5.channel.k8s.io: the first byte of a message is its channel). Each pod has a host
name and processes of its own; what is run in it enters its namespaces. No other part of Kubernetes
is there: no scheduler, no kubelet, no rights.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.sync.server import Server, ServerConnection, serve
from websockets.typing import Subprotocol

from whyhang.samples.harness.little_slurm import HOST

if TYPE_CHECKING:
    from typing_extensions import Self

STDIN, STDOUT, STDERR, ERROR, CLOSE = 0, 1, 2, 3, 255
PROTOCOL = Subprotocol("v5.channel.k8s.io")
CONFIG = """\
apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: u, user: {{}}}}]
contexts: [{{name: x, context: {{cluster: c, user: u, namespace: ml}}}}]
current-context: x
"""
RESOURCES = {
    "/version": {"major": "1", "minor": "32", "gitVersion": "v1.32.0"},
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
    "/api/v1": {
        "kind": "APIResourceList",
        "groupVersion": "v1",
        "resources": [
            {"name": "pods", "kind": "Pod", "namespaced": True, "verbs": ["get", "list"]},
            {
                "name": "pods/exec",
                "kind": "PodExecOptions",
                "namespaced": True,
                "verbs": ["create"],
            },
        ],
    },
}


def pod(
    name: str, labels: Mapping[str, str], *, status: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Describe a pod with one container, which runs unless ``status`` says otherwise."""
    running = {
        "phase": "Running",
        "containerStatuses": [
            {"name": "pytorch", "ready": True, "restartCount": 0, "state": {"running": {}}}
        ],
    }
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": "ml", "labels": dict(labels)},
        "spec": {
            "nodeName": f"node-of-{name}",
            "containers": [
                {"name": "istio-proxy"},
                {"name": "pytorch", "env": [{"name": "TOKEN", "value": "not-for-a-bundle"}]},
            ],
        },
        "status": dict(status or running),
    }


class KubeApi:
    """A context manager: the server, and the processes in its pods."""

    def __init__(self, pods: Sequence[dict[str, Any]]) -> None:
        self.pods = {one["metadata"]["name"]: one for one in pods}
        self.folder = Path(tempfile.mkdtemp(prefix="kube-"))
        self.asked: list[str] = []
        self.silent: set[str] = set()  # pods on a node whose kubelet does not answer
        self._inits: dict[str, subprocess.Popen[bytes]] = {}
        self._server: Server | None = None

    def __enter__(self) -> Self:
        self._server = serve(
            self._channel,
            "127.0.0.1",
            0,
            process_request=self._plain,
            subprotocols=[PROTOCOL],
            compression=None,
            max_size=None,
            ping_interval=None,
        )
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        port = self._server.socket.getsockname()[1]
        config = self.folder / "config"
        config.write_text(CONFIG.format(port=port))
        self.environ = {**os.environ, "KUBECONFIG": str(config), "HOME": str(self.folder)}
        return self

    def __exit__(self, *_: object) -> None:
        for init in self._inits.values():
            init.kill()  # and the kernel all that runs in its namespace
        for init in self._inits.values():
            init.wait()
        if self._server is not None:
            self._server.shutdown()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, name: str, command: Sequence[str], environ: Mapping[str, str]) -> Path:
        """Run a program in a pod; return the file that takes its output."""
        output = self.folder / f"{name}.log"
        with output.open("wb") as log:
            self._inits[name] = subprocess.Popen(
                [*HOST, name, *command],
                env={**os.environ, **environ},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        return output

    def processes(self, name: str) -> str:
        """List what runs in a pod."""
        enter = self._enter(name)
        return subprocess.run(
            [*enter, "ps", "-ww", "-eo", "args"], capture_output=True, text=True
        ).stdout

    def _enter(self, name: str) -> list[str]:
        children = Path(f"/proc/{self._inits[name].pid}/task/{self._inits[name].pid}/children")
        return [
            "nsenter",
            f"--target={children.read_text().split()[0]}",
            "--uts",
            "--pid",
            "--mount",
        ]

    def _plain(self, connection: ServerConnection, request: Request) -> Response | None:
        """Answer what is no WebSocket."""
        self.asked.append(request.path)
        url = urlsplit(request.path)
        parts = url.path.split("/")
        if parts[-1] in {"exec", "attach"}:
            return None
        if url.path in RESOURCES:
            return _json(RESOURCES[url.path])
        if url.path == "/api/v1/namespaces/ml/pods":
            return _json(self._listed(parse_qs(url.query).get("labelSelector", [""])[0]))
        if len(parts) == 7 and parts[5] == "pods" and parts[6] in self.pods:
            return _json(self.pods[parts[6]])
        status = {"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}
        return _json({**status, "message": f"{url.path} not found"}, HTTPStatus.NOT_FOUND)

    def _listed(self, selector: str) -> dict[str, Any]:
        wanted = dict(pair.split("=", 1) for pair in selector.split(",") if pair)
        fitting = [
            one for one in self.pods.values() if wanted.items() <= one["metadata"]["labels"].items()
        ]
        return {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": fitting}

    def _channel(self, connection: ServerConnection) -> None:
        """Carry standard input and output of a command in a pod."""
        assert connection.request is not None
        url = urlsplit(connection.request.path)
        name, query = url.path.split("/")[6], parse_qs(url.query)
        if name in self.silent:
            with contextlib.suppress(ConnectionClosed):
                while True:
                    connection.recv()
            return
        program = subprocess.Popen(
            [*self._enter(name), *query["command"]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert program.stdin is not None
        assert program.stdout is not None
        assert program.stderr is not None
        writers = [
            threading.Thread(target=_forward, args=(connection, number, stream), daemon=True)
            for number, stream in ((STDOUT, program.stdout), (STDERR, program.stderr))
        ]
        for thread in writers:
            thread.start()
        reader = threading.Thread(target=_feed, args=(connection, program), daemon=True)
        reader.start()
        code = program.wait()
        for thread in writers:
            thread.join()
        with contextlib.suppress(ConnectionClosed):
            connection.send(bytes([ERROR]) + json.dumps(_status(code)).encode())


def _forward(connection: ServerConnection, number: int, stream: Any) -> None:
    with contextlib.suppress(ConnectionClosed):
        while data := stream.read1(1 << 16):
            connection.send(bytes([number]) + data)


def _feed(connection: ServerConnection, program: subprocess.Popen[bytes]) -> None:
    """Give the program what comes on the channel of its input; its end closes it."""
    assert program.stdin is not None
    with contextlib.suppress(ConnectionClosed, OSError, ValueError):
        for message in connection:
            data = message if isinstance(message, bytes) else message.encode()
            if data[:1] == bytes([STDIN]):
                program.stdin.write(data[1:])
                program.stdin.flush()
            elif data == bytes([CLOSE, STDIN]):
                program.stdin.close()
    with contextlib.suppress(OSError, ValueError):
        program.stdin.close()


def _status(code: int) -> dict[str, Any]:
    if code == 0:
        return {"kind": "Status", "status": "Success"}
    causes = [{"reason": "ExitCode", "message": str(code if code > 0 else 128 - code)}]
    return {
        "kind": "Status",
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": f"command terminated with exit code {code}",
        "details": {"causes": causes},
    }


def _json(value: object, status: HTTPStatus = HTTPStatus.OK) -> Response:
    body = json.dumps(value).encode()
    headers = Headers({"Content-Type": "application/json", "Content-Length": str(len(body))})
    headers["Connection"] = "close"
    return Response(status.value, status.phrase, headers, body)
