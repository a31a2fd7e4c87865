"""What surrounds a play in its process: global random states and settings that a policy might use
or change.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import numpy as np


@contextmanager
def seeded_globals(seed: int) -> Iterator[None]:
    """Global random states fixed during a play: a policy that uses them must give the same row in
    any process.

    These states are put back afterwards, and so is what else policies change for their own use and
    would leave to the
    next trial: NumPy's error handling, warning filters, and the working directory.
    """
    before, numpy_before = random.getstate(), np.random.get_state()  # noqa: NPY002 (the legacy state is the point)
    folder, filters = _working_directory(), list(warnings.filters)
    torch = sys.modules.get("torch")
    torch_before = torch.get_rng_state() if torch is not None else None
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    if torch is not None:
        torch.manual_seed(seed)
    try:
        with np.errstate():
            yield
    finally:
        random.setstate(before)
        np.random.set_state(numpy_before)  # noqa: NPY002
        if torch is not None:
            torch.set_rng_state(torch_before)
        if warnings.filters != filters:
            warnings.filters[:] = filters  # type: ignore[index]
        if folder and folder != _working_directory():
            os.chdir(folder)


@contextmanager
def keyboard() -> Iterator[Callable[[], bool]]:
    """Gives a function that says whether a `KeyboardInterrupt` is the user's, not one that a policy
    raises itself.

    It is the user's if the signal arrived. Where signals are not ours to watch (another thread, a
    handler that somebody has set) every interrupt is taken for the user's. So is that of a policy
    that sends the signal to its own process.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        yield lambda: False  # no key of the user's arrives
        return
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield lambda: True
        return
    arrived = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal arrived
        arrived = True
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, note)
    try:
        yield lambda: arrived
    finally:
        if signal.getsignal(signal.SIGINT) is note:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _working_directory() -> str:
    """Current directory, or "" if it no longer exists."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""


def drew_from_unseeded_torch(known: bool) -> bool:
    """Whether a play that imported torch itself (it was not `known` before) has used its generator,
    which nobody could seed in time."""
    torch = sys.modules.get("torch")
    if known or torch is None:
        return False
    return not torch.equal(torch.get_rng_state(), torch.Generator().get_state())
