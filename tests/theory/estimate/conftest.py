"""One thread of torch for every test here."""

from tests.threads import single_thread

__all__ = ["single_thread"]
