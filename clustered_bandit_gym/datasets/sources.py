"""Where a user's copy of a data set lies, and how to read it line by line without unpacking it."""

from __future__ import annotations

import os
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from clustered_bandit_gym._types import Floats
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.rewards import RewardModel

#: A folder that holds the data sets, or the path of one: used where no path is given.
VARIABLE = "CLUSTERED_BANDIT_DATA"


@dataclass(frozen=True, eq=False)
class Bandits:
    """The bandits of a data set, without agents: means (M, K), None if the laws give them; laws."""

    means: Floats | None
    rewards: RewardModel
    arm_names: tuple[str, ...]
    cluster_names: tuple[str, ...]


@dataclass(frozen=True)
class Origin:
    """What a data set is called, where to get it, and under which names people keep it."""

    title: str
    address: str
    containers: tuple[str, ...]
    stand_in: str  # id of the environment that needs no data
    any_name: str = ""  # a plain file with this ending is taken whatever its name

    def missing(self, problem: str) -> FileNotFoundError:
        return FileNotFoundError(
            f"{self.title}: {problem}. It may not be redistributed: get your own copy at "
            f"{self.address} and give its path (data=... in Python, --set data=PATH on the command "
            f"line), or set the environment variable {VARIABLE} to it or to the folder that holds "
            f"{' or '.join(self.containers)}. Without the data, play its stand-in: {self.stand_in}"
        )


@dataclass(frozen=True)
class Source:
    """One text file of a data set: a plain file, or a member of a zip or tar.

    Equal sources hold equal text (same file, same time of change, same size), so what was parsed
    from one can be remembered by it.
    """

    path: Path
    name: str
    changed: int
    size: int

    @property
    def label(self) -> str:
        return str(self.path) if self.path.name == self.name else f"{self.path}, {self.name}"

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """(line number from 1, line without its end) of every line that is not blank."""
        with _readable(self.label), ExitStack() as stack:
            for number, line in enumerate(_open(self.path, self.name, stack), 1):
                if line.strip():
                    yield number, line.rstrip(b"\r\n")

    def bad_line(self, number: int, line: bytes, expected: str) -> UserError:
        """The error for a line in the wrong format."""
        shown = line[:80].decode("latin-1")
        return UserError(f"{self.label}, line {number}: expected {expected}, found {shown!r}")


@contextmanager
def _readable(label: str) -> Iterator[None]:
    """Damaged archives raise many kinds of errors; the user gets one that says what to do."""
    try:
        yield
    except (UserError, FileNotFoundError, PermissionError):
        raise
    except Exception as error:
        raise UserError(f"{label} cannot be read to its end ({error}); download it again") from None


def find(data: str | os.PathLike[str] | None, name: str, origin: Origin) -> Source:
    """The file `name` of a data set in the file, folder or archive `data`.

    None: what the environment variable says.
    """
    path = data or os.environ.get(VARIABLE)
    if not path:
        raise origin.missing("no path given")
    root = Path(path).expanduser()
    if not root.exists():
        raise origin.missing(f"{root} does not exist")
    with _readable(str(root)):
        holder = _holder(root, name, origin)
    if holder is None:
        raise origin.missing(f"{root} holds no {name}")
    state = holder.stat()
    return Source(holder.resolve(), name, state.st_mtime_ns, state.st_size)


def _holder(path: Path, name: str, origin: Origin) -> Path | None:
    """The plain file or archive at or below `path` that holds `name`."""
    if path.is_dir():
        inside = [path / one for one in (name, *origin.containers)]
        found = [_holder(one, name, origin) for one in inside if one.exists()]
        return next((one for one in found if one is not None), None)
    if path.name == name or (origin.any_name and path.suffix == origin.any_name):
        return path
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            return path if _member(archive.namelist(), name) else None
    if tarfile.is_tarfile(path):
        return path  # it must be read through to know its members: reading it will tell
    if path.suffix in (".zip", ".tar", ".tgz", ".gz"):
        raise UserError(f"{path} is not a readable archive; download it again")
    # One file of several was given: the others lie beside it.
    beside = path.with_name(name)
    return beside if path.suffix == beside.suffix and beside.exists() else None


def _member(names: list[str], name: str) -> str | None:
    """The archive's member called `name` in whatever folder, else the first tar inside it."""
    files = [one for one in names if _is_file(one, name)]
    tars = [one for one in names if one.endswith((".tar", ".tgz", ".tar.gz"))]
    return next(iter(files or tars), None)


def _is_file(member: str, name: str) -> bool:
    """Whether `member` is the file `name`, and not the second one that macOS adds."""
    path = PurePosixPath(member)
    return path.name == name and "__MACOSX" not in path.parts


def _open(path: Path, name: str, stack: ExitStack) -> IO[bytes]:
    if zipfile.is_zipfile(path):
        archive = stack.enter_context(zipfile.ZipFile(path))
        member = _member(archive.namelist(), name)
        assert member is not None, "found before"
        file = stack.enter_context(archive.open(member))
        return file if _is_file(member, name) else _open_tar(file, path, name, stack)
    file = stack.enter_context(path.open("rb"))
    return _open_tar(file, path, name, stack) if tarfile.is_tarfile(path) else file


def _open_tar(file: IO[bytes], path: Path, name: str, stack: ExitStack) -> IO[bytes]:
    # "r|*" streams: the Yelp archive has gigabytes behind the one file that is wanted.
    archive = stack.enter_context(tarfile.open(fileobj=file, mode="r|*"))  # noqa: SIM115
    for member in archive:
        if member.isfile() and _is_file(member.name, name):
            found = archive.extractfile(member)
            assert found is not None
            return found
    raise FileNotFoundError(f"{path} holds no {name}: it is another archive than expected")
