"""Small settings of the training, and the weights in model files."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import torch

#: Of `make_model`: a training that takes a second.
SMALL: dict[str, Any] = {"steps": 256, "n_envs": 8, "n_steps": 16, "max_pulls": 36}


def weights(path: Path) -> dict[str, torch.Tensor]:
    import io

    with zipfile.ZipFile(path) as archive:
        return torch.load(io.BytesIO(archive.read("policy.pth")), weights_only=True)


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)
