"""Where a user's copy of a data set lies, and how to read it line by line without unpacking it."""

from __future__ import annotations

import lzma
import os
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, TypeVar

from clustered_bandit_gym.errors import UserError

#: A folder that holds the data sets, or the path of one: used where no path is given.
VARIABLE = "CLUSTERED_BANDIT_DATA"

_T = TypeVar("_T")

#: A file of a data set, and all that lies before it in a tar, may expand to this many bytes. The
#: largest archive known here, Yelp's, has 9 GB.
MAX_BYTES = 32 * 2**30
#: The longest line of a known file has a few thousand bytes.
MAX_LINE = 2**20

#: What damaged archives raise, depending on where the damage is.
_DAMAGE = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    OSError,
    KeyError,
    ValueError,
    OverflowError,
    NotImplementedError,  # compressed in a way that zipfile does not know
    RuntimeError,  # encrypted
)


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
            f"{self.title}: {problem}. It may not be redistributed: get your own copy at {self.address} and give its "
            f"path (data=... in Python, --set data=PATH on the command line), or set the environment variable "
            f"{VARIABLE} to it or to the folder that holds {' or '.join(self.containers)}. Without the data, play "
            f"its stand-in: {self.stand_in}"
        )


@dataclass(frozen=True)
class Source:
    """One text file of a data set: a plain file, or a member of a zip or tar. Equal sources hold
    equal text (same file, same time of change, same size), so what was parsed from one can be
    remembered by it."""

    path: Path
    name: str
    changed: int
    size: int

    @property
    def label(self) -> str:
        return str(self.path) if self.path.name == self.name else f"{self.path}, {self.name}"

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """(line number from 1, line without its end) of every line that is not blank."""
        with ExitStack() as stack:
            file = _guarded(self.label, lambda: _open(self.path, self.name, stack))
            number = total = 0
            while line := _guarded(self.label, lambda: file.readline(MAX_LINE + 1)):
                number, total = number + 1, total + len(line)
                if len(line) > MAX_LINE:
                    raise self.bad_line(number, line, f"at most {MAX_LINE:,} bytes")
                if total > MAX_BYTES:
                    raise _too_large(self.label)
                line = line.rstrip(b"\r\n")
                if line.strip():
                    yield number, line

    def bad_line(self, number: int, line: bytes, expected: str) -> UserError:
        """The error for a line in the wrong format."""
        shown = line[:80].decode("latin-1")
        return UserError(f"{self.label}, line {number}: expected {expected}, found {shown!r}")


def _guarded(label: str, read: Callable[[], _T]) -> _T:
    """What `read` returns; damage becomes one error that says what to do."""
    try:
        return read()
    except (UserError, FileNotFoundError, PermissionError):
        raise
    except _DAMAGE as error:
        raise UserError(f"{label} cannot be read to its end ({error}); download it again") from None


def _too_large(label: str) -> UserError:
    return UserError(
        f"{label} expands to more than {MAX_BYTES:,} bytes, which no known version of it does"
    )


def find(data: str | os.PathLike[str] | None, name: str, origin: Origin) -> Source:
    """The file `name` of a data set in the file, folder or archive `data` (None: what the
    environment says)."""
    if data is None:
        data = os.environ.get(VARIABLE) or None
        if data is None:
            raise origin.missing("no path given")
    root = Path(data).expanduser()
    if not root.exists():
        raise origin.missing(f"{root} does not exist")
    holder = _holder(root, name, origin)
    if holder is None:
        raise origin.missing(f"{root} holds no {name}")
    state = holder.stat()
    return Source(holder.resolve(), name, state.st_mtime_ns, state.st_size)


def _holder(path: Path, name: str, origin: Origin) -> Path | None:
    """The plain file or archive at or below `path` that holds `name`."""
    if path.is_dir():
        for candidate in (name, *origin.containers):
            found = _holder(path / candidate, name, origin) if (path / candidate).exists() else None
            if found is not None:
                return found
        return None
    if path.name == name or (origin.any_name and path.suffix == origin.any_name):
        return path
    if zipfile.is_zipfile(path):
        with _guarded(str(path), lambda: zipfile.ZipFile(path)) as archive:
            return path if _member(archive.namelist(), name) else None
    if _guarded(str(path), lambda: tarfile.is_tarfile(path)):
        return path  # it must be read through to know its members: reading it will tell
    if path.suffix in (".zip", ".tar", ".tgz", ".gz"):
        raise UserError(f"{path} is not a readable archive; download it again")
    # One file of several was given: the others lie beside it.
    beside = path.with_name(name)
    return beside if path.suffix == beside.suffix and beside.exists() else None


def _member(names: list[str], name: str) -> str | None:
    """The archive's member called `name` in whatever folder, else the first tar archive inside it."""
    names = [member for member in names if not _of_macos(member)]
    files = [member for member in names if PurePosixPath(member).name == name]
    tars = [member for member in names if member.endswith((".tar", ".tgz", ".tar.gz"))]
    return next(iter(files or tars), None)


def _of_macos(member: str) -> bool:
    """Whether macOS added it: its archives have a second file of attributes for each file, with the
    same ending."""
    path = PurePosixPath(member)
    return "__MACOSX" in path.parts or path.name.startswith("._")


def _open(path: Path, name: str, stack: ExitStack) -> IO[bytes] | Any:
    if zipfile.is_zipfile(path):
        archive = stack.enter_context(zipfile.ZipFile(path))
        member = _member(archive.namelist(), name)
        assert member is not None, "found before"
        file = stack.enter_context(archive.open(member))
        return file if PurePosixPath(member).name == name else _open_tar(file, path, name, stack)
    if tarfile.is_tarfile(path):
        return _open_tar(stack.enter_context(path.open("rb")), path, name, stack)
    return stack.enter_context(path.open("rb"))


def _open_tar(file: Any, path: Path, name: str, stack: ExitStack) -> IO[bytes]:
    # "r|*" streams: the Yelp archive has gigabytes behind the one file that is wanted.
    archive = stack.enter_context(tarfile.open(fileobj=file, mode="r|*"))  # noqa: SIM115 (the stack closes it)
    for member in archive:
        if member.offset_data + member.size > MAX_BYTES:  # before it is read through
            raise _too_large(str(path))
        if (
            member.isfile()
            and not _of_macos(member.name)
            and PurePosixPath(member.name).name == name
        ):
            found = archive.extractfile(member)
            assert found is not None
            return found
    raise FileNotFoundError(f"{path} holds no {name}: it is another archive than expected")
