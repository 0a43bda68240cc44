"""Fetching one file whose size and SHA-256 are known beforehand.

The bytes gather in `NAME.HASH.part` beside their place. An interrupted transfer leaves that file, and the next call goes on
from its end (HTTP Range). The file takes its name only after its hash was found right; wrong content is removed.
"""

import hashlib
import http.client
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None

from .atomic import publish, reason
from .errors import ConfigError

CHUNK = 1 << 18

Progress = Callable[[int, int], object]  # called with (bytes so far, bytes in all)


class WrongContent(ConfigError):
    """The server's file is not the one that was pinned."""


def download(url: str, path: str | Path, *, sha256: str, size: int, progress: Progress | None = None, timeout: float = 30.0) -> Path:
    """Fetch `url` into `path` and return `path`. Exactly `size` bytes are accepted, so no server can fill a disk.

    progress: called with (bytes so far, size), at first with what an earlier transfer had left.
    timeout: seconds without an answer or a byte.

    Raises ConfigError, one line: no network, an answer such as 404, a transfer that stopped (call again to go on), another
    process at the same file, no permission, no space, wrong size or hash (nothing is left then).
    """
    path = Path(path)
    part = path.with_name(f"{path.name}.{sha256[:8]}.part")  # a part of another edition is not gone on with
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(part, "a+b") as file:
            claim(file, path)
            receive(url, file, path, size, progress or (lambda done, total: None), timeout)
            file.seek(0)
            came = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
        if came != sha256:
            raise WrongContent(
                f"{url} has SHA-256 {came}, expected {sha256}; nothing was kept. Its content has changed, or a proxy answered"
            )
        publish(part, path)
    except WrongContent:
        part.unlink(missing_ok=True)
        raise
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {reason(error)}") from error
    return path


def claim(file: BinaryIO, path: Path) -> None:
    """One process at a time: two would append to the same part. The claim ends when the file is closed."""
    if not fcntl:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ConfigError(f"another process is downloading {path} just now; wait for it") from None
    except OSError:
        return  # a file system without locks; the hash still decides


def receive(url: str, file: BinaryIO, path: Path, size: int, progress: Progress, timeout: float) -> None:
    """Append to `file` until it holds `size` bytes."""
    have = file.seek(0, 2)
    if have > size:
        have = file.truncate(0)
    if have == size:
        return
    free = shutil.disk_usage(path.parent).free
    if free < size - have:
        raise ConfigError(f"cannot write {path}: it needs {size - have:,} bytes and {free:,} are free")
    with ask(url, have, timeout) as answer:
        if answer.status != 206:  # the server knows no ranges: it sends the file from its start
            have = file.truncate(0)
        progress(have, size)
        too_large = WrongContent(f"{url} is larger than the {size:,} bytes expected; nothing was kept")
        if answer.length is not None and have + answer.length > size:
            raise too_large
        for chunk in chunks(answer, url, have, size):
            have += len(chunk)
            if have > size:
                raise too_large
            file.write(chunk)
            progress(have, size)


def ask(url: str, start: int, timeout: float) -> http.client.HTTPResponse:
    """The server's answer, from byte `start` on where it can."""
    headers = {"User-Agent": "pullback", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    try:
        return urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=timeout)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416:  # nothing at `start` or after it
            raise WrongContent(f"{url} is shorter than the {start:,} bytes fetched before; they were removed, try again") from None
        raise ConfigError(f"{url} answered {error.code} {error.reason}") from None
    except (OSError, http.client.HTTPException) as error:
        raise ConfigError(f"cannot reach {url}: {why(error)}; is there a network?") from error


def chunks(answer: http.client.HTTPResponse, url: str, have: int, size: int) -> Iterator[bytes]:
    """What arrives, as it arrives, so that a broken transfer loses nothing; ConfigError if it ends early."""
    cause = "the connection was closed"
    try:
        while chunk := answer.read1(CHUNK):
            have += len(chunk)
            yield chunk
    except (OSError, http.client.HTTPException) as error:
        cause = why(error)
    if have < size:
        raise ConfigError(f"{url} stopped after {have:,} of {size:,} bytes ({cause}); they are kept, run it again to go on")


def why(error: Exception) -> str:
    """The innermost cause in words: urllib wraps the system's error as `reason`."""
    cause = getattr(error, "reason", error)
    if isinstance(cause, TimeoutError):
        return "no answer in time"
    return reason(cause) if isinstance(cause, OSError) else str(cause) or type(cause).__name__
