"""Answers with pieces of so many bytes, three in a second, for ten minutes."""

import http.server
import sys
import time

PIECES = 1800
PIECE = int(sys.argv[1])


class Slow(http.server.BaseHTTPRequestHandler):
    """Serves one file that is as long as asked for."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(PIECES * PIECE))
        self.end_headers()
        for _ in range(PIECES):
            self.wfile.write(bytes(PIECE))
            time.sleep(0.3)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


server = http.server.HTTPServer(("127.0.0.1", 0), Slow)
print(server.server_port, flush=True)
server.serve_forever()
