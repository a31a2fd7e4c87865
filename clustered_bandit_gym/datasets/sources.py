"""Where a user's copy of a data set lies, and how to read it without unpacking it."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple, TypeVar

from clustered_bandit_gym._types import FilePath
from clustered_bandit_gym.errors import UserError

Parsed = TypeVar("Parsed")

#: A folder that holds the data sets, or the path of one: used where no path is given.
VARIABLE = "CLUSTERED_BANDIT_DATA"


class Origin(NamedTuple):
    """What a data set is called, where to get it, and under which names people keep it."""

    title: str
    address: str
    containers: tuple[str, ...]
    stand_in: str  # id of the environment that needs no data

    def missing(self, problem: str) -> FileNotFoundError:
        return FileNotFoundError(
            f"{self.title}: {problem}. It may not be redistributed: get your own copy at "
            f"{self.address} and give its path (data=... in Python, --set data=PATH on the command "
            f"line), or set the environment variable {VARIABLE} to it or to the folder that holds "
            f"{' or '.join(self.containers)}. Without the data, play its stand-in: {self.stand_in}"
        )


class Source(NamedTuple):
    """One text file of a data set: a plain file, or a member of a zip.

    Equal sources hold equal text (same file, same time of change, same size), so what was parsed
    from one can be remembered by it.
    """

    path: Path
    name: str
    changed: int
    size: int

    def parsed(self, parse: Callable[[bytes], Parsed], expected: str) -> Iterator[Parsed]:
        """`parse` of every line that is not blank; where it raises, the error names the line."""
        for number, line in enumerate(self._read().split(b"\n"), 1):
            if not line.strip():
                continue
            try:
                yield parse(line.rstrip(b"\r"))
            except Exception:
                raise UserError(
                    f"{self.path}, {self.name}, line {number}: expected {expected}, found "
                    f"{line[:80].decode('latin-1')!r}"
                ) from None

    def _read(self) -> bytes:
        if self.path.suffix != ".zip":
            return self.path.read_bytes()
        try:
            with zipfile.ZipFile(self.path) as archive:
                for member in map(PurePosixPath, archive.namelist()):
                    # macOS adds a second file of the same name.
                    if member.name == self.name and "__MACOSX" not in member.parts:
                        return archive.read(str(member))
        except Exception as error:  # damaged archives raise many kinds
            raise UserError(f"{self.path} cannot be read ({error}); download it again") from None
        raise FileNotFoundError(f"{self.path} holds no {self.name}")


def find(data: FilePath | None, name: str, origin: Origin) -> Source:
    """The file `name` of a data set: `data`, by default what the environment variable says, is that
    file, a zip, or a folder that holds either."""
    path = data or os.environ.get(VARIABLE)
    if not path:
        raise origin.missing("no path given")
    root = Path(path).expanduser()
    for folder in (root, *(root / one for one in origin.containers)):
        for place in (folder, folder / name):
            if place.is_file():
                state = place.stat()
                return Source(place.resolve(), name, state.st_mtime_ns, state.st_size)
    raise origin.missing(f"{root} {'holds no ' + name if root.exists() else 'does not exist'}")
