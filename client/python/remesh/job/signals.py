# SPDX-License-Identifier: Apache-2.0
"""SIGTERM as a notice: one handler for all listeners of the process.

The handler that was there before is called, too, and is back when the last listener closes. In a
forked child it is back at once, so that pools and data loaders can end their processes.
"""

import logging
import os
import signal
import threading
from typing import Callable, List

_LOG = logging.getLogger("remesh")

_listeners: List["Listener"] = []
_earlier = signal.SIG_DFL  # the handler before ours
_installed = False
_forking = threading.local()  # mask: the signals that the thread that forks has blocked


class Listener:
    """Calls a function at each SIGTERM, in the main thread. The process does not end by it, unless
    the earlier handler ends it."""

    def __init__(self, told: Callable[[], None]):
        """In another thread than the main one Python lets no handler be installed: then a SIGTERM
        does what it did before, and a line of log says so."""
        self.told = told
        self.is_installed = _install()
        if self.is_installed:
            _listeners.append(self)

    def close(self) -> None:
        """Receives no more signals. In another thread than the main one the handler stays until the
        last listener closes in the main one, but does what the earlier one did."""
        if self in _listeners:
            _listeners.remove(self)
        if not _listeners:
            _restore()


# Whether our handler is there, now.
def _install() -> bool:
    global _earlier, _installed  # pylint: disable=global-statement
    if _installed:
        return True
    if threading.current_thread() is not threading.main_thread():
        _LOG.info("SIGTERM is not noticed: the job runs in another thread than the main one")
        return False
    earlier = signal.getsignal(signal.SIGTERM)
    if earlier is None:
        _LOG.warning("SIGTERM is not noticed: it has a handler that is not Python's")
        return False
    _earlier, _installed = earlier, True
    signal.signal(signal.SIGTERM, _handle)
    return True


# Leaves the handler alone that someone has put over ours: it may call ours.
def _restore() -> None:
    global _installed  # pylint: disable=global-statement
    in_main = threading.current_thread() is threading.main_thread()
    if _installed and in_main and signal.getsignal(signal.SIGTERM) is _handle:
        signal.signal(signal.SIGTERM, _earlier)
        _installed = False


def _handle(number, frame) -> None:
    for listener in list(_listeners):
        listener.told()
    if callable(_earlier):
        _earlier(number, frame)
    elif not _listeners and _earlier == signal.SIG_DFL:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


# Python drops signals that reach a child before its handlers can be changed:
# SIGTERM waits for that.
def _before_fork() -> None:
    _forking.mask = (
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM}) if _installed else None
    )


def _after_fork() -> None:
    if _forking.mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, _forking.mask)


def _after_fork_in_child() -> None:
    _listeners.clear()
    _restore()
    _after_fork()


os.register_at_fork(
    before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child
)
