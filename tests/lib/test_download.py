"""Downloads against a server on this machine that misbehaves on request; no test needs a network."""

import contextlib
import errno
import hashlib
import os
import random
import shutil
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from pullback.lib import corpora
from pullback.lib.download import download
from pullback.lib.errors import ConfigError, UnknownName

CONTENT = random.Random(0).randbytes(1_000_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """content: what it holds. ranges: answers 206. stop: bytes after which it hangs up. length: tells the Content-Length."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answer)
        self.content, self.ranges, self.stop, self.length, self.status = CONTENT, True, None, True, 200
        self.asked: list[str | None] = []  # the Range header of each request

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/input.txt"


class Answer(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self):
        server, wanted = self.server, self.headers["Range"]
        server.asked.append(wanted)
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and server.ranges else 0
        if start >= len(server.content):
            return self.send_error(416)
        if server.status != 200:
            return self.send_error(server.status)
        body = server.content[start:]
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(server.content) - 1}/{len(server.content)}")
        if server.length:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(ConnectionError):  # who refuses a file hangs up
            self.wfile.write(body[: server.stop])

    def log_message(self, *args):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def fetch(server, tmp_path):
    """Download the server's file as `cache/data.txt` of the test's folder."""

    def fetch(**changed):
        arguments = {"sha256": SHA256, "size": len(CONTENT), "timeout": 5.0} | changed
        return download(server.url, tmp_path / "cache" / "data.txt", **arguments)

    return fetch


def files(tmp_path):
    return sorted(os.listdir(tmp_path / "cache"))


def refusal(fetch, **changed) -> str:
    with pytest.raises(ConfigError) as error:
        fetch(**changed)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_the_whole_file_with_its_progress(fetch, tmp_path):
    seen = []
    path = fetch(progress=lambda done, total: seen.append((done, total)))
    assert path.read_bytes() == CONTENT and files(tmp_path) == ["data.txt"]
    done = [d for d, _ in seen]
    assert done[0] == 0 and done[-1] == len(CONTENT) and done == sorted(done) and {t for _, t in seen} == {len(CONTENT)}


def test_an_interrupted_transfer_goes_on_where_it_stopped(fetch, server, tmp_path):
    server.stop = 300_000
    assert "stopped after 300,000 of 1,000,000 bytes" in refusal(fetch)
    assert files(tmp_path) == [f"data.txt.{SHA256[:8]}.part"]
    assert "stopped after 600,000 of 1,000,000 bytes" in refusal(fetch)
    server.stop, seen = None, []
    assert fetch(progress=lambda done, total: seen.append(done)).read_bytes() == CONTENT
    assert server.asked == [None, "bytes=300000-", "bytes=600000-"] and seen[0] == 600_000
    assert files(tmp_path) == ["data.txt"]


def test_ctrl_c_keeps_what_came(fetch, server, tmp_path):
    def interrupt(done, total):
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(progress=interrupt)
    (part,) = (tmp_path / "cache").iterdir()
    have = part.stat().st_size
    assert 0 < have < len(CONTENT) and fetch().read_bytes() == CONTENT and server.asked[1] == f"bytes={have}-"


def test_a_server_without_ranges_starts_again(fetch, server, tmp_path):
    server.stop = 300_000
    refusal(fetch)
    server.stop, server.ranges = None, False
    assert fetch().read_bytes() == CONTENT and server.asked[1] == "bytes=300000-"
    assert files(tmp_path) == ["data.txt"]


def test_a_finished_part_is_not_fetched_again(fetch, server, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / f"data.txt.{SHA256[:8]}.part").write_bytes(CONTENT)
    assert fetch().read_bytes() == CONTENT and server.asked == []


@pytest.mark.parametrize("part", [b"", CONTENT[:1000]])
def test_a_wrong_hash_leaves_nothing(fetch, server, tmp_path, part):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / f"data.txt.{SHA256[:8]}.part").write_bytes(part)
    server.content = CONTENT[:-1] + bytes([CONTENT[-1] ^ 1])
    text = refusal(fetch)
    assert SHA256 in text and hashlib.sha256(server.content).hexdigest() in text and files(tmp_path) == []


def test_a_wrong_hash_leaves_the_file_of_before(fetch, server, tmp_path):
    fetch()
    server.content = bytes(len(CONTENT))
    refusal(fetch)
    assert (tmp_path / "cache" / "data.txt").read_bytes() == CONTENT and files(tmp_path) == ["data.txt"]


@pytest.mark.parametrize("length", [True, False])
def test_too_large_is_refused_before_or_while_reading(fetch, server, tmp_path, length):
    server.content, server.length, seen = CONTENT * 3, length, []
    assert "larger than the 1,000,000 bytes" in refusal(fetch, progress=lambda done, total: seen.append(done))
    assert files(tmp_path) == [] and max(seen) <= len(CONTENT)
    assert (seen == [0]) is length  # told beforehand, not a byte of it is read


def test_a_part_that_is_too_large_is_dropped(fetch, server, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / f"data.txt.{SHA256[:8]}.part").write_bytes(CONTENT + b"more")
    assert fetch().read_bytes() == CONTENT and server.asked == [None]


def test_too_short_and_not_resumable_any_more(fetch, server, tmp_path):
    server.stop = 300_000
    refusal(fetch)
    server.content, server.stop = CONTENT[:200_000], None
    assert "shorter than the 300,000 bytes fetched before" in refusal(fetch) and files(tmp_path) == []


@pytest.mark.parametrize("status", [404, 500])
def test_an_answer_that_is_no_file(fetch, server, status):
    server.status = status
    assert f"{server.url} answered {status} " in refusal(fetch)


def test_nobody_answers(tmp_path, monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/x"
        with pytest.raises(ConfigError, match="^cannot reach .*Connection refused; is there a network"):
            download(url, tmp_path / "x", sha256=SHA256, size=10, timeout=5.0)


def test_a_server_that_falls_silent(tmp_path, monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with pytest.raises(ConfigError, match="no answer in time"):
            download(f"http://127.0.0.1:{silent.getsockname()[1]}/x", tmp_path / "x", sha256=SHA256, size=10, timeout=0.05)


def test_a_full_disk(fetch, tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=999_999))
        assert "it needs 1,000,000 bytes and 999,999 are free" in refusal(fetch)

    def full(done, total):  # as a write would, when others filled the disk meanwhile
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    assert refusal(fetch, progress=full) == f"cannot write {tmp_path / 'cache' / 'data.txt'}: No space left on device"


def test_a_place_that_cannot_be_written(fetch, tmp_path):
    (tmp_path / "cache").write_text("a file, no folder")
    assert refusal(fetch).startswith(f"cannot write {tmp_path / 'cache' / 'data.txt'}: ")


def test_two_at_once(fetch, server, tmp_path):
    pytest.importorskip("fcntl", reason="file locks are POSIX")
    texts = []
    path = fetch(progress=lambda done, total: texts.append(refusal(fetch)) if not texts else None)
    assert "another process is downloading" in texts[0] and path.read_bytes() == CONTENT and len(server.asked) == 1


def test_a_named_set_is_fetched_once_and_then_read(server, tmp_path, monkeypatch):
    text = "a text from the network, naïve\n" * 100
    server.content = text.encode()
    digest = hashlib.sha256(server.content).hexdigest()
    monkeypatch.delenv("PULLBACK_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setitem(corpora.NAMED, "small", corpora.Named("small.txt", server.url, digest, len(server.content)))
    with pytest.raises(ConfigError, match="run `pullback data small`"):
        corpora.read_corpus("small")
    path = corpora.fetch("small")
    assert path == tmp_path / "pullback" / "small.txt" == corpora.fetch("small") and len(server.asked) == 1
    assert corpora.read_corpus("small") == ("small", text, digest)

    path.write_text("damaged")
    with pytest.raises(ConfigError, match="is not the data set 'small'"):
        corpora.read_corpus("small")
    assert corpora.fetch("small").read_text() == text  # a damaged copy in the cache is replaced


def test_an_unknown_set_names_the_nearest():
    with pytest.raises(UnknownName, match="no data set 'tinyshakespere'; did you mean 'tinyshakespeare'"):
        corpora.fetch("tinyshakespere")
