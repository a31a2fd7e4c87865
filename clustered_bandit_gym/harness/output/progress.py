"""The progress bar of long work, in a terminal or a notebook."""

from __future__ import annotations

import warnings
from typing import Any


def progress_bar(**settings: Any) -> Any:
    """A `tqdm` bar; in a notebook without ipywidgets it falls back to text, quietly."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from tqdm.auto import tqdm
    return tqdm(**settings)
