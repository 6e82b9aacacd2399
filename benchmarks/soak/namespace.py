"""A network of one's own: a process with loopback and nothing else, where the system lets one have it (Linux)."""

from __future__ import annotations

import shutil
import socket
import struct
import subprocess
import sys

if sys.platform == "linux":
    import fcntl


def alone() -> list[str]:
    """Return how to start a process without any network but loopback; nothing where that is not possible."""
    command = shutil.which("unshare")
    for option in ("-n", "-rn"):
        if command and subprocess.run([command, option, "true"], capture_output=True, check=False).returncode == 0:
            return [command, option]
    return []


def loopback_up() -> None:
    """Switch on loopback, which is off in a new network namespace."""
    up_and_running = 0x1 | 0x40
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh", b"lo", up_and_running))  # SIOCSIFFLAGS
