"""How far a run is: a bar in a terminal or notebook, a line now and then elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

from clustered_bandit_gym.harness.output.progress import progress_bar

#: Seconds between lines where there is no terminal, and without an ended trial before the hint.
_LINE_SECONDS = 60.0
_HINT_SECONDS = 60.0


class Progress:
    """Counts ended trials. A context manager.

    A thread watches the clock, because a trial that never ends would be silent otherwise.

    Args:
        total, done: trials of the run, and those of them that were played before.
        shown: False prints nothing.
    """

    def __init__(self, total: int, done: int, shown: bool) -> None:
        self.total = total
        self.done = done
        self.shown = shown
        self.last = self.start = time.monotonic()
        self.hinted = False
        self.over = threading.Event()
        self.bar: Any = None

    def __enter__(self) -> Progress:
        if not self.shown:
            return self
        if sys.stderr.isatty() or "ipykernel" in sys.modules:
            self.bar = progress_bar(
                total=self.total, initial=self.done, unit="trial", dynamic_ncols=True
            )
        threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.over.set()
        if self.bar is not None:
            self.bar.close()

    def update(self) -> None:
        """One more trial has ended."""
        self.done += 1
        self.last = time.monotonic()
        if self.bar is not None:
            self.bar.update()

    def _watch(self) -> None:
        shown = self.start
        while not self.over.wait(min(1.0, _LINE_SECONDS / 4)):
            now = time.monotonic()
            if not self.hinted and now - self.last >= _HINT_SECONDS:
                self.hinted = True
                self._say(
                    f"no trial has ended for {_HINT_SECONDS:g} s; --max-seconds (max_seconds=) "
                    "ends trials that take longer"
                )
            if self.bar is None and now - shown >= _LINE_SECONDS:
                shown = now
                seconds = now - self.start
                self._say(f"{self.done:,} of {self.total:,} trials after {seconds:,.0f} s")

    def _say(self, text: str) -> None:
        if self.bar is not None:
            self.bar.write(text, file=sys.stderr)
        else:
            print(text, file=sys.stderr, flush=True)
