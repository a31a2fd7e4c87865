"""Where a user's copy of a data set lies, and how to read it line by line without unpacking it."""

from __future__ import annotations

import os
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, TypeVar

from clustered_bandit_gym.errors import UserError

Parsed = TypeVar("Parsed")

#: A folder that holds the data sets, or the path of one: used where no path is given.
VARIABLE = "CLUSTERED_BANDIT_DATA"

_TARS = (".tar", ".tgz", ".gz")


@dataclass(frozen=True)
class Origin:
    """What a data set is called, where to get it, and under which names people keep it."""

    title: str
    address: str
    containers: tuple[str, ...]
    stand_in: str  # id of the environment that needs no data
    any_name: str = ".none"  # files with this ending are taken whatever their name

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
        try:
            with ExitStack() as stack:
                for number, line in enumerate(_open(self.path, self.name, stack), 1):
                    if line.strip():
                        yield number, line.rstrip(b"\r\n")
        except (FileNotFoundError, PermissionError):
            raise
        except Exception as error:  # damaged archives raise many kinds
            raise UserError(
                f"{self.label} cannot be read to its end ({error}); download it again"
            ) from None

    def parsed(self, parse: Callable[[bytes], Parsed], expected: str) -> Iterator[Parsed]:
        """`parse` of every line that is not blank; where it raises, the error names the line."""
        for number, line in self.lines():
            try:
                found = parse(line)
            except Exception:
                shown = line[:80].decode("latin-1")
                raise UserError(
                    f"{self.label}, line {number}: expected {expected}, found {shown!r}"
                ) from None
            yield found


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
    holder = _holder(root, name, origin)
    if holder is None:
        raise origin.missing(f"{root} holds no {name}")
    state = holder.stat()
    return Source(holder.resolve(), name, state.st_mtime_ns, state.st_size)


def _holder(path: Path, name: str, origin: Origin) -> Path | None:
    """The plain file `name`, or an archive that may hold it, at or below `path`."""
    if path.is_dir():
        inside = [path / one for one in (name, *origin.containers)]
        found = [_holder(one, name, origin) for one in inside if one.exists()]
        return next((one for one in found if one is not None), None)
    if path.suffix in (".zip", *_TARS, origin.any_name):
        return path
    beside = path.with_name(name)  # one file of several was given: the others lie beside it
    return beside if beside.exists() else None


def _is_file(member: str, name: str) -> bool:
    """Whether `member` is the file `name`, and not the second one that macOS adds."""
    path = PurePosixPath(member)
    return path.name == name and "__MACOSX" not in path.parts


def _open(path: Path, name: str, stack: ExitStack) -> IO[bytes]:
    if path.suffix == ".zip":
        archive = stack.enter_context(zipfile.ZipFile(path))
        members = archive.namelist()
        found = [one for one in members if _is_file(one, name)]
        tars = [one for one in members if one.endswith(_TARS)]
        for member in (found or tars)[:1]:
            file = stack.enter_context(archive.open(member))
            return file if found else _open_tar(file, path, name, stack)
        raise FileNotFoundError(f"{path} holds no {name}: it is another archive than expected")
    file = stack.enter_context(path.open("rb"))
    return _open_tar(file, path, name, stack) if path.suffix in _TARS else file


def _open_tar(file: IO[bytes], path: Path, name: str, stack: ExitStack) -> IO[bytes]:
    # "r|*" streams: the Yelp archive has gigabytes behind the one file that is wanted.
    archive = stack.enter_context(tarfile.open(fileobj=file, mode="r|*"))  # noqa: SIM115
    for member in archive:
        if member.isfile() and _is_file(member.name, name):
            found = archive.extractfile(member)
            assert found is not None
            return found
    raise FileNotFoundError(f"{path} holds no {name}: it is another archive than expected")
