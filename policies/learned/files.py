"""The files of a training run: the best model, its settings and history, and the checkpoint of a run under way.

A model file is a Stable-Baselines3 zip with one entry more, the settings as JSON. Nothing here unpickles: tensors are
read with `weights_only=True`, all else is JSON or plain arrays.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.policies.learned.player import SETTINGS_FILE

_BUFFER = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")


@dataclass
class Progress:
    """State of a run: finished segments, one row of history for each, the number of the best row, processor time."""

    segments: int = 0
    steps: int = 0
    processor_seconds: float = 0.0
    history: list[dict[str, float]] = field(default_factory=list)
    best: int = -1


class TrainingFiles:
    """`model.zip` (the best model), `model.json` (settings, history), `model.checkpoint` while a run is under way."""

    def __init__(self, out: Path) -> None:
        if out.suffix != ".zip":
            raise UserError(f"the name of a model file must end in .zip, got {out.name}")
        self.out = out
        self.about = self.out.with_suffix(".json")
        self.last = self.out.with_suffix(".checkpoint")
        self.candidate = self.out.with_suffix(".candidate")
        if not self.out.parent.is_dir():
            raise UserError(
                f"cannot write {self.out.name}: there is no folder {self.out.parent}; create it first"
            )

    def clear(self) -> None:
        for path in (self.out, self.about, self.last, self.candidate):
            path.unlink(missing_ok=True)

    def is_finished(self, settings: Any) -> bool:
        """Whether the model of a run with these settings is here."""
        if not (self.out.is_file() and self.about.is_file()) or self.last.exists():
            return False
        return bool(
            json.loads(self.about.read_text())["settings"]
            == json.loads(json.dumps(asdict(settings)))
        )

    def resume(self, settings: Any) -> Progress:
        """Progress of an interrupted run with these settings; a fresh start if there is none."""
        if self.last.exists():
            with zipfile.ZipFile(self.last) as archive:
                found = json.loads(archive.read(SETTINGS_FILE))
            mine = json.loads(json.dumps(asdict(settings)))
            changed = [
                one.name
                for one in fields(settings)
                if found["settings"].get(one.name) != mine[one.name]
            ]
            if changed:
                raise UserError(
                    f"{self.last} belongs to a run with other settings ({', '.join(changed)}): "
                    "use the same settings, choose another file, or overwrite it"
                )
            return Progress(**found["progress"])
        if self.out.exists() or self.about.exists():
            raise UserError(f"{self.out} exists: choose another file, or overwrite it")
        return Progress()

    def save_model(self, model: Any, settings: Any) -> None:
        self._write(self.candidate, model, {"settings": asdict(settings)})

    def keep(self) -> None:
        """The candidate is the best model so far."""
        os.replace(self.candidate, self.out)

    def checkpoint(self, model: Any, settings: Any, state: Progress) -> None:
        about = {
            "settings": asdict(settings),
            "progress": asdict(state),
            "updates": int(model._n_updates),
        }
        buffer = getattr(model, "replay_buffer", None)
        arrays: dict[str, np.ndarray] = {}
        if buffer is not None:
            about |= {
                "buffer_full": bool(buffer.full),
                "buffer_pos": int(buffer.pos),
                "calls": int(model._n_calls),
            }
            filled = buffer.buffer_size if buffer.full else buffer.pos
            arrays = {name: getattr(buffer, name)[:filled] for name in _BUFFER}
        self._write(self.last, model, about, arrays)
        self.candidate.unlink(missing_ok=True)

    def restore(self, model: Any, state: Progress) -> None:
        with zipfile.ZipFile(self.last) as archive:
            about = json.loads(archive.read(SETTINGS_FILE))
            if "buffer_pos" in about:
                with np.load(io.BytesIO(archive.read("buffer.npz")), allow_pickle=False) as arrays:
                    for name in _BUFFER:
                        getattr(model.replay_buffer, name)[: len(arrays[name])] = arrays[name]
                model.replay_buffer.full, model.replay_buffer.pos = (
                    about["buffer_full"],
                    about["buffer_pos"],
                )
                model._n_calls = about["calls"]
        model.set_parameters(self.last, exact_match=True, device="cpu")
        model.num_timesteps, model._n_updates = state.steps, about["updates"]

    def finish(self, settings: Any, state: Progress) -> None:
        from importlib.metadata import version

        packages = ("clustered-bandit-gym", "stable-baselines3", "sb3-contrib", "torch", "numpy")
        about = {
            "settings": asdict(settings),
            "history": state.history,
            "best": state.history[state.best],
            "processor_seconds": round(state.processor_seconds, 1),
            "versions": {name: version(name) for name in packages},
        }
        replace_file(self.about, json.dumps(about, indent=2).encode())
        self.last.unlink(missing_ok=True)

    def _write(
        self,
        path: Path,
        model: Any,
        about: dict[str, Any],
        arrays: dict[str, np.ndarray] | None = None,
    ) -> None:
        about = {**about, "cells": int(model.action_space.n) - 1}
        whole = io.BytesIO()
        model.save(whole)
        with zipfile.ZipFile(whole, "a") as archive:
            archive.writestr(SETTINGS_FILE, json.dumps(about))
            if arrays:
                packed = io.BytesIO()
                np.savez(packed, **arrays)  # type: ignore[arg-type]
                archive.writestr("buffer.npz", packed.getvalue())
        replace_file(path, whole.getvalue())


def replace_file(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    half = path.with_name(path.name + ".tmp")
    half.write_bytes(content)
    os.replace(half, path)
