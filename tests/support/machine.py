"""What this machine lacks for tests with servers or a browser."""

from __future__ import annotations

import socket


def lacks(program: str) -> str:
    """Why `program`, which talks to itself over the loopback interface, cannot run; "" if it can."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname(), timeout=5).close()
    except OSError as error:
        return f"{program} needs the loopback interface ({error})"
    try:
        import resource
    except ImportError:
        return ""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    unlimited = limit in (-1, resource.RLIM_INFINITY) or limit > 10**10
    return "" if unlimited else f"{program} needs more than 10 GB of address space (ulimit -v)"
