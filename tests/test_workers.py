from __future__ import annotations

import signal
import subprocess
import sys

from steadfed._core.workers import interrupts_blocked

ASK = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()))"


def hears_nothing() -> str:
    return subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603


def test_children_are_deaf_to_ctrl_c_from_their_first_moment_and_their_parent_is_not() -> None:
    with interrupts_blocked():
        assert hears_nothing() == "True"
    assert hears_nothing() == "False"
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
