"""The cache: keys, and what a folder, a file system, other processes and other threads can do to it."""

from __future__ import annotations

import errno
import json
import logging
import os
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amk.errors import CompileError
from amk.synth import cache as module
from amk.synth import cache_disk, cache_notes
from amk.synth.cache import Cache, CacheKey, CacheWarning, Entry
from amk.synth.cache_entry import LIMITS, MANIFEST, Damaged, pack, unpack

ROOT = Path(__file__).parents[2]
WORKER = Path(__file__).with_name("cache_worker.py")
KEY = CacheKey(
    descriptor="d" * 64,
    target="sm_90",
    device_name="NVIDIA H200",
    agent="rule/1",
    toolkit="13.0.88",
    flags=("--std=c++17", "-default-device"),
    templates="t" * 64,
    harness="0.1.0",
    driver="580.82",
)
ENTRY = Entry(b"\x7fELF" + bytes(range(256)), "// text \u00e9", "ptxas info", '{"proved": true}', {"registers": 10})
OTHER = replace(ENTRY, cubin=b"other")
FLIPPED = {
    "descriptor": "e" * 64,
    "target": "sm_90a",
    "device_name": "NVIDIA H100",
    "agent": "rule/2",
    "toolkit": "13.0.89",
    "flags": ("-default-device", "--std=c++17"),
    "templates": "u" * 64,
    "harness": "0.1.1",
    "driver": "none",
    "form": "checked",
    "schema": 2,
}
POSIX = pytest.mark.skipif(os.name != "posix", reason="file modes, links and signals of POSIX")


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test is like a new process: no warning given yet, no settings; an unexpected warning is a failure."""
    for name in ("AMK_CACHE_DIR", "XDG_CACHE_HOME", "AMK_ALWAYS_COMPILE", "AMK_LOGS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(cache_notes, "_fallback", threading.Lock())
    with warnings.catch_warnings():
        warnings.simplefilter("error", CacheWarning)
        yield


def _folder(cache: Cache, key: CacheKey = KEY) -> Path:
    root = cache._open()
    assert root
    return root / key.digest()


def _worker(mode: str, folder: Path, **env: str) -> subprocess.Popen[str]:
    full = {**os.environ, "PYTHONPATH": str(ROOT), **env}
    command = [sys.executable, str(WORKER), mode, str(folder)]
    return subprocess.Popen(command, env=full, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _answers(*workers: subprocess.Popen[str]) -> list[str]:
    results = [(*worker.communicate(timeout=60), worker.returncode) for worker in workers]
    assert all(code == 0 and not err for _, err, code in results), results
    return [out.strip() for out, _, _ in results]


# Keys.


def test_every_field_is_flipped_here() -> None:
    """A field that is added to the key must be added to the test below."""
    assert set(FLIPPED) == {field.name for field in fields(CacheKey)}


@pytest.mark.parametrize("name", FLIPPED)
def test_flipped_field_misses(name: str, tmp_path: Path) -> None:
    """C1, C2, C7: any changed field is a miss and a new entry; going back is a hit on the first one."""
    cache, flipped = Cache(tmp_path), replace(KEY, **{name: FLIPPED[name]})
    cache.put(KEY, ENTRY)
    assert cache.get(flipped) is None
    assert cache.get_or_make(flipped, lambda: OTHER) == (OTHER, False)
    assert cache.get(KEY) == ENTRY and cache.get(flipped) == OTHER


def test_same_digest_in_every_process(tmp_path: Path) -> None:
    """C2: hash seed and order of the fields do not reach the key."""
    seeds = ("0", "1", "4711")
    assert len(set(_answers(*(_worker("digest", tmp_path, PYTHONHASHSEED=seed) for seed in seeds)))) == 1


_texts = st.text(max_size=6)


@settings(max_examples=200, deadline=None)
@given(st.lists(_texts, max_size=4), st.lists(_texts, max_size=4), _texts, _texts)
def test_encoding_is_unambiguous(left: list[str], right: list[str], agent: str, target: str) -> None:
    """C2: two keys share a digest only if they are equal: no text can imitate a border between fields."""
    one = replace(KEY, flags=tuple(left), agent=agent, target=target)
    two = replace(KEY, flags=tuple(right), agent=target, target=agent)
    assert (one.digest() == two.digest()) == (one == two)


# Entries.


def test_round_trip(tmp_path: Path) -> None:
    """All parts of an entry come back as they were put, in another cache object over the same folder too."""
    Cache(tmp_path).put(KEY, ENTRY)
    assert Cache(tmp_path).get(KEY) == ENTRY
    assert Cache(tmp_path).get_or_make(KEY, lambda: OTHER) == (ENTRY, True)


def test_first_entry_is_kept(tmp_path: Path) -> None:
    """Putting a key again does not disturb the entry that others may be reading."""
    cache = Cache(tmp_path)
    cache.put(KEY, ENTRY)
    cache.put(KEY, OTHER)
    assert cache.get(KEY) == ENTRY


def test_wrong_toolkit_is_not_kept(tmp_path: Path) -> None:
    """C1: an entry that another toolkit made than the key says is given back, but found by nobody."""
    cache, made = Cache(tmp_path), replace(ENTRY, meta={"toolkit": "12.9"})
    assert cache.get_or_make(KEY, lambda: made) == (made, False)
    assert cache.get(KEY) is None and cache.ls() == []


def test_too_large_stays_in_memory(tmp_path: Path) -> None:
    """A part over its limit is not written, so that no reader has to take that much; it is still found here."""
    cache, large = Cache(tmp_path), replace(ENTRY, meta={"x": "y" * LIMITS["meta.json"]})
    cache.put(KEY, large)
    assert cache.get(KEY) == large and Cache(tmp_path).get(KEY) is None


def test_always_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """AMK_ALWAYS_COMPILE=1 makes again what is there, and leaves it there."""
    cache = Cache(tmp_path)
    cache.put(KEY, ENTRY)
    monkeypatch.setenv("AMK_ALWAYS_COMPILE", "1")
    assert cache.get_or_make(KEY, lambda: OTHER) == (OTHER, False)
    monkeypatch.delenv("AMK_ALWAYS_COMPILE")
    assert cache.get(KEY) == ENTRY


def test_hit_and_miss_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The log "amk.cache" tells each look-up, with the beginning of the digest and the target."""
    cache = Cache(tmp_path)
    with caplog.at_level(logging.INFO, logger="amk.cache"):
        cache.get(KEY)
        cache.put(KEY, ENTRY)
        cache.get(KEY)
    lines = [record.getMessage() for record in caplog.records if record.name == "amk.cache"]
    assert lines == [f"miss {KEY.digest()[:16]} sm_90", f"hit {KEY.digest()[:16]} sm_90"]


def test_amk_logs(tmp_path: Path) -> None:
    """AMK_LOGS=cache prints on stderr where the program set up no logging; without it nothing is printed."""
    logs = [_worker("make", tmp_path, AMK_LOGS=names).communicate(timeout=60)[1] for names in ("x,cache", "x")]
    assert "amk.cache: miss" in logs[0] and logs[1] == ""


def test_warm_hit_imports_nothing_heavy(tmp_path: Path) -> None:
    """A hit imports neither CUDA nor the templates nor the prover: it must cost milliseconds."""
    _answers(_worker("make", tmp_path))
    assert _answers(_worker("modules", tmp_path)) == ["True []"]


# Processes.


def test_eight_processes(tmp_path: Path) -> None:
    """C3: eight processes that want one key at once all get it, and one whole entry is left."""
    answers = _answers(*(_worker("make", tmp_path) for _ in range(8)))
    assert len({answer[2:] for answer in answers}) == 1
    cache = Cache(tmp_path)
    assert len(cache.ls()) == 1 and cache.verify() == module.Verified(1, ())
    assert list((tmp_path / "v1" / "tmp").iterdir()) == []
    assert _answers(_worker("make", tmp_path))[0].startswith("1 ")


@POSIX
@pytest.mark.parametrize("when", ["0", "1", "3", "5", "rename"])
def test_killed_while_writing(when: str, tmp_path: Path) -> None:
    """C5: a process killed at any point of the write leaves a miss, never a half entry; the next one succeeds."""
    dying = _worker(f"die:{when}", tmp_path)
    dying.communicate(timeout=60)
    assert dying.returncode == -9
    cache = Cache(tmp_path)
    assert cache.ls() == [] and len(list((tmp_path / "v1" / "tmp").iterdir())) == 1
    assert _answers(_worker("make", tmp_path), _worker("make", tmp_path))
    assert _answers(_worker("make", tmp_path))[0].startswith("1 ")


def test_leftovers_are_swept(tmp_path: Path) -> None:
    """What a dead writer left is deleted by `gc` after an hour, and not before: it may be alive."""
    cache = Cache(tmp_path)
    _folder(cache).parent.joinpath("tmp").mkdir()
    left = tmp_path / "v1" / "tmp" / "left"
    left.mkdir()
    cache.gc()
    assert left.exists()
    os.utime(left, (time.time() - 7200,) * 2)
    cache.gc()
    assert not left.exists()


@pytest.mark.parametrize("code", [errno.EEXIST, errno.ENOTEMPTY, errno.ESTALE])
@pytest.mark.parametrize("read", [errno.ENOENT, errno.ESTALE])
def test_loser_of_the_race(code: int, read: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C3: the rename says "exists", the open says "no such file": the own build is used, from memory, at once."""
    cache = Cache(tmp_path)
    cache.put(KEY, OTHER)  # the winner's entry
    winner = _folder(cache)

    def lost(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    def unseen(*_: object) -> bytes:
        raise OSError(read, os.strerror(read))

    monkeypatch.setattr(cache_disk, "read", unseen)
    monkeypatch.setattr(cache_disk.os, "rename", lost)
    assert cache.get_or_make(KEY, lambda: ENTRY) == (ENTRY, False)
    assert cache.get_or_make(KEY, lambda: OTHER) == (ENTRY, True)
    monkeypatch.undo()
    assert winner.is_dir() and Cache(tmp_path).get(KEY) == OTHER  # nobody touched the winner's


# Damage.


def _damage(folder: Path, how: str) -> None:
    cubin = folder / "kernel.cubin"
    data = cubin.read_bytes()
    manifest = (folder / MANIFEST).read_text()
    acts = {
        "empty": lambda: cubin.write_bytes(b""),
        "half": lambda: cubin.write_bytes(data[: len(data) // 2]),
        "flipped": lambda: cubin.write_bytes(data[:9] + bytes([data[9] ^ 1]) + data[10:]),
        "longer": lambda: cubin.write_bytes(data + b"x"),
        "source": lambda: (folder / "kernel.cu").write_text("// other"),
        "certificate": lambda: (folder / "certificate.json").write_text('{"proved": "yes"}'),
        "removed": cubin.unlink,
        "no log": (folder / "build.log").unlink,
        "no manifest": (folder / MANIFEST).unlink,
        "folder": lambda: (cubin.unlink(), cubin.mkdir()),
        "manifest empty": lambda: (folder / MANIFEST).write_text(""),
        "manifest list": lambda: (folder / MANIFEST).write_text("[]"),
        "manifest deep": lambda: (folder / MANIFEST).write_text("[" * 30_000),
        "manifest large": lambda: (folder / MANIFEST).write_text(manifest + " " * LIMITS[MANIFEST]),
        "manifest names": lambda: (folder / MANIFEST).write_text(manifest.replace("kernel.cubin", "../x")),
        "manifest key": lambda: (folder / MANIFEST).write_text(manifest.replace("H200", "H100")),
        "manifest type": lambda: (folder / MANIFEST).write_text(manifest.replace('"sm_90"', '["sm_90"]')),
    }
    acts[how]()


HOW = "empty,half,flipped,longer,source,certificate,removed,folder,no log,no manifest,manifest empty,manifest list"
HOW += ",manifest deep,manifest large,manifest names,manifest key,manifest type"


@pytest.mark.parametrize("how", HOW.split(","))
def test_damaged_entry(how: str, tmp_path: Path) -> None:
    """C5: whatever is wrong with an entry, it is a miss with one warning, moved away, replaced; then a clean hit."""
    Cache(tmp_path).put(KEY, ENTRY)
    cache = Cache(tmp_path)
    _damage(_folder(cache), how)
    with pytest.warns(CacheWarning, match="made again") as told:
        assert cache.get_or_make(KEY, lambda: ENTRY) == (ENTRY, False)
    assert len(told) == 1
    assert len(list((tmp_path / "v1" / "bad").iterdir())) == 1
    assert Cache(tmp_path).get_or_make(KEY, lambda: OTHER) == (ENTRY, True)


@pytest.mark.parametrize("code", [errno.EACCES, errno.EIO])
def test_unreadable_file(code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C5: a file of an entry that cannot be read (rights, disk) is damage like any other."""
    cache, opened = Cache(tmp_path), os.open
    cache.put(KEY, ENTRY)

    def failing(path: Path, *rest: int) -> int:
        if str(path).endswith("build.log") and len(rest) == 1:
            raise OSError(code, os.strerror(code), str(path))
        return opened(path, *rest)

    monkeypatch.setattr(cache_disk.os, "open", failing)
    with pytest.warns(CacheWarning, match="build.log cannot be read"):
        assert cache.get(KEY) is None
    monkeypatch.undo()
    assert cache.get_or_make(KEY, lambda: OTHER) == (OTHER, False)


@pytest.mark.parametrize("code", [errno.ESTALE, errno.EMFILE])
def test_passing_trouble_is_no_damage(code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C3: a stale handle or too many open files is a miss, but the entry stays for the next time."""
    cache = Cache(tmp_path)
    cache.put(KEY, ENTRY)

    def failing(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(cache_disk.os, "open", failing)
    assert cache.get(KEY) is None
    monkeypatch.undo()
    assert cache.get(KEY) == ENTRY


@POSIX
@pytest.mark.parametrize("what", ["file", "entry", "pipe"])
def test_links_and_pipes_are_not_followed(what: str, tmp_path: Path) -> None:
    """A link out of the folder is damage even if the content is right, and a pipe does not hang the reader."""
    cache = Cache(tmp_path / "cache")
    cache.put(KEY, ENTRY)
    inside = _folder(cache) if what == "entry" else _folder(cache) / "kernel.cubin"
    os.rename(inside, tmp_path / "outside")
    os.mkfifo(inside) if what == "pipe" else inside.symlink_to(tmp_path / "outside")
    with pytest.warns(CacheWarning):
        assert cache.get(KEY) is None
    assert (tmp_path / "outside").exists()


def test_quarantine_is_bounded(tmp_path: Path) -> None:
    """Damaged entries are kept for a look, but not without end."""
    cache = Cache(tmp_path)
    for _ in range(cache_disk._BAD_KEPT + 4):
        cache.put(KEY, ENTRY)
        (_folder(cache) / MANIFEST).write_text("")
        with pytest.warns(CacheWarning):
            cache.get(KEY)
    assert len(list((tmp_path / "v1" / "bad").iterdir())) == cache_disk._BAD_KEPT


def test_discard(tmp_path: Path) -> None:
    """C1: an entry that the driver refuses to load is moved away with a warning, and made again once."""
    cache = Cache(tmp_path)
    cache.put(KEY, ENTRY)
    with pytest.warns(CacheWarning, match="the driver refused it"):
        cache.discard(KEY, "the driver refused it")
    assert cache.get_or_make(KEY, lambda: OTHER) == (OTHER, False)


def test_an_entry_that_is_replaced_while_it_is_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the old one and half of its successor look damaged; the successor must stay."""
    cache, read = Cache(tmp_path), cache_disk.read
    cache.put(KEY, ENTRY)
    replaced: list[bool] = []

    def reading(root: Path, digest: str, name: str) -> bytes:
        data = read(root, digest, name)
        if not replaced:
            replaced.append(cache_disk.quarantine(root, digest))
            Cache(tmp_path).put(KEY, OTHER)
        return data

    monkeypatch.setattr(cache_disk, "read", reading)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cache.get(KEY) == OTHER and replaced == [True]
    assert Cache(tmp_path).get(KEY) == OTHER


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(LIMITS)), st.binary(max_size=80), st.integers(0, 1000))
def test_hostile_files(name: str, data: bytes, at: int) -> None:
    """Any bytes in place of any part of any file: Damaged, or the very entry that was put."""
    files = pack(KEY, ENTRY)
    old = files[name]
    files[name] = old[:at] + data + old[at + len(data) :]
    try:
        assert unpack(KEY.digest(), files.__getitem__) == ENTRY
    except Damaged:
        assert files[name] != old


# Folders.


def _refusing(code: int, call: str) -> Callable[..., object]:
    """Function `call` of os that fails with `code` whenever it is asked to write."""
    real = getattr(os, call)

    def refuse(*arguments: object, **more: object) -> object:
        if call == "open" and not int(arguments[1]) & os.O_CREAT:  # type: ignore[call-overload]
            return real(*arguments, **more)
        raise OSError(code, os.strerror(code))

    return refuse


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES, errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("call", ["mkdir", "open", "rename"])
def test_folder_that_does_not_take_entries(
    code: int, call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C4: read-only, forbidden, full, over quota, at any step: right entries from memory and one warning in all."""
    cache, again = Cache(tmp_path), Cache(tmp_path)
    cache._open()
    monkeypatch.setattr(cache_disk.os, call, _refusing(code, call))
    with pytest.warns(CacheWarning, match="AMK_CACHE_DIR") as told:
        for number in range(3):
            key = replace(KEY, agent=str(number))
            assert cache.get_or_make(key, lambda: ENTRY) == (ENTRY, False)
            assert cache.get_or_make(key, lambda: OTHER) == (ENTRY, True)
        again.put(KEY, ENTRY)
    assert len(told) == 1 and str(tmp_path) in str(told[0].message)
    monkeypatch.undo()
    assert cache.ls() == [] and list(tmp_path.glob("v1/tmp/*")) == []


def test_short_write_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C4, C5: a disk that fills up in the middle of a file leaves nothing behind; later there is room again."""
    cache, real = Cache(tmp_path), cache_disk._write_plain

    def filling(path: Path, data: bytes) -> None:
        real(path, data[:3])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(cache_disk, "_write_plain", filling)
    with pytest.warns(CacheWarning, match="No space left"):
        cache.put(KEY, ENTRY)
    assert list(tmp_path.glob("v1/tmp/*")) == [] and cache.get(KEY) == ENTRY
    monkeypatch.undo()
    other = replace(KEY, agent="x")
    cache.put(other, OTHER)
    assert Cache(tmp_path).get(other) == OTHER


def test_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """C4: a file where the folder should be: memory and one warning that names it; nothing else stops."""
    (tmp_path / "file").write_text("")
    with pytest.warns(CacheWarning, match="file") as told:
        caches = [Cache(tmp_path / "file"), Cache(tmp_path / "file" / "below")]
        for cache in caches:
            assert cache.get_or_make(KEY, lambda: ENTRY) == (ENTRY, False)
            assert cache.get(KEY) == ENTRY and cache.ls() == []
            assert cache.gc().kept == cache.verify().good == 0
    assert len(told) == 1


def test_no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """C4: no home folder at all is a warning with the setting to change."""

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(cache_disk.Path, "home", homeless)
    with pytest.warns(CacheWarning, match="AMK_CACHE_DIR"):
        assert Cache().get_or_make(KEY, lambda: ENTRY) == (ENTRY, False)


def test_making_a_cache_touches_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C4: a command that needs no entry works without a folder, and makes none."""
    monkeypatch.setenv("AMK_CACHE_DIR", str(tmp_path / "new"))
    Cache()
    assert not (tmp_path / "new").exists()


def test_which_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """AMK_CACHE_DIR before XDG_CACHE_HOME before the home folder; empty or relative XDG counts as not set."""
    monkeypatch.setattr(cache_disk.Path, "home", lambda: tmp_path)
    assert cache_disk.default_folder() == tmp_path / ".cache" / "amk"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_disk.default_folder() == tmp_path / ".cache" / "amk"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_disk.default_folder() == tmp_path / "xdg" / "amk"
    monkeypatch.setenv("AMK_CACHE_DIR", str(tmp_path / "own"))
    assert cache_disk.default_folder() == tmp_path / "own"


@POSIX
def test_folders_are_private(tmp_path: Path) -> None:
    """Folders and files of the cache are for their user alone, whatever the umask."""
    old = os.umask(0)
    try:
        cache = Cache(tmp_path / "a" / "cache")
        cache.put(KEY, ENTRY)
    finally:
        os.umask(old)
    made = [tmp_path / "a" / "cache", *(tmp_path / "a" / "cache").rglob("*")]
    assert len(made) > 8 and all(path.stat().st_mode & 0o077 == 0 for path in made)


@POSIX
@pytest.mark.parametrize("below", ["", "v1"])
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_folder_open_to_others(mode: int, below: str, tmp_path: Path) -> None:
    """A folder that others may write into could hand us their binaries: refused, with the reason."""
    (tmp_path / "c" / "v1").mkdir(parents=True, mode=0o700)
    (tmp_path / "c" / below).chmod(mode)
    with pytest.warns(CacheWarning, match="others may write"):
        assert Cache(tmp_path / "c").get_or_make(KEY, lambda: ENTRY) == (ENTRY, False)


@POSIX
def test_folder_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that belongs to somebody else is refused, as is a link in place of the versioned folder."""
    Cache(tmp_path).put(KEY, ENTRY)
    monkeypatch.setattr(cache_disk.os, "geteuid", lambda: os.getuid() + 1)
    with pytest.warns(CacheWarning, match="another user"):
        assert Cache(tmp_path).get(KEY) is None
    monkeypatch.undo()


# Threads.


def test_sixteen_threads_one_make(tmp_path: Path) -> None:
    """B10: sixteen threads, one key: made once, the same for all."""
    cache, made, ready = Cache(tmp_path), [], threading.Barrier(16)

    def make() -> Entry:
        made.append(1)
        time.sleep(0.1)
        return ENTRY

    def ask(_: int) -> tuple[Entry, bool]:
        ready.wait()
        return cache.get_or_make(KEY, make)

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(ask, range(16)))
    assert len(made) == 1 and [hit for _, hit in answers].count(False) == 1
    assert all(entry == ENTRY for entry, _ in answers) and cache._flights._flights == {}


def test_other_keys_do_not_wait(tmp_path: Path) -> None:
    """B10: while one key is being made, another is made and hit."""
    cache, go, started = Cache(tmp_path), threading.Event(), threading.Event()

    def blocked() -> Entry:
        started.set()
        assert go.wait(30)
        return ENTRY

    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(cache.get_or_make, KEY, blocked)
        assert started.wait(30)
        other = replace(KEY, agent="x")
        assert cache.get_or_make(other, lambda: OTHER) == (OTHER, False)
        assert cache.get_or_make(other, lambda: ENTRY) == (OTHER, True)
        assert not slow.done()
        go.set()
        assert slow.result(30) == (ENTRY, False)


def test_failing_make(tmp_path: Path) -> None:
    """B10: a failure reaches every waiting thread, leaves nothing registered, and the next try succeeds."""
    cache, calls, ready = Cache(tmp_path), [], threading.Barrier(16)

    def fail() -> Entry:
        calls.append(1)
        time.sleep(0.1)
        raise CompileError("no", log="the log")

    def ask(_: int) -> str:
        ready.wait()
        with pytest.raises(CompileError) as caught:
            cache.get_or_make(KEY, fail)
        return caught.value.log

    with ThreadPoolExecutor(16) as pool:
        assert set(pool.map(ask, range(16))) == {"the log"}
    assert len(calls) <= 2 and cache._flights._flights == {} and cache.ls() == []
    assert cache.get_or_make(KEY, lambda: ENTRY) == (ENTRY, False)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fork_while_making(tmp_path: Path) -> None:
    """B9: a child forked while another thread was making does not wait for a thread that it does not have."""
    code = """
import os, sys, threading
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from cache_worker import KEY, entry
from amk.synth.cache import Cache
cache, go, started = Cache(Path(sys.argv[1])), threading.Event(), threading.Event()
thread = threading.Thread(target=cache.get_or_make, args=(KEY, lambda: started.set() or go.wait() and entry()))
thread.start(); started.wait()
cache._guard.acquire()
child = os.fork()
if not child:
    os._exit(0 if cache.get_or_make(KEY, entry) == (entry(), False) else 1)
cache._guard.release()
status = os.waitpid(child, 0)[1]; go.set(); thread.join(); sys.exit(status)
"""
    command = [sys.executable, "-W", "ignore", "-c", code, str(tmp_path), str(WORKER.parent)]
    assert subprocess.run(command, cwd=ROOT, timeout=30, check=False).returncode == 0


# Looking after the folder.


def _filled(folder: Path, count: int) -> tuple[Cache, list[CacheKey]]:
    """Entries of which number n was last used n days ago."""
    cache, keys = Cache(folder), [replace(KEY, agent=str(number)) for number in range(count)]
    for number, key in enumerate(keys):
        cache.put(key, ENTRY)
        os.utime(_folder(cache, key), (time.time() - number * 86_400,) * 2)
    return cache, keys


def test_ls(tmp_path: Path) -> None:
    """The listing names key, bytes and last use, last used first; a damaged entry is listed without its key."""
    cache, keys = _filled(tmp_path, 3)
    (_folder(cache, keys[1]) / MANIFEST).write_text("{}")
    listed = cache.ls()
    assert [entry.key for entry in listed] == [keys[0], None, keys[2]]
    assert listed[1].digest == keys[1].digest() and listed[0].bytes > len(ENTRY.cubin)
    assert abs(listed[2].used - (time.time() - 2 * 86_400)) < 60


def test_gc_by_age(tmp_path: Path) -> None:
    """Entries unused for longer than the limit go; the rest stays and is told."""
    _, keys = _filled(tmp_path, 5)
    cache = Cache(tmp_path, max_age_days=2.5)
    done = cache.gc()
    assert (done.removed, done.kept) == (2, 3) and done.freed_bytes > 0
    assert [cache.get(key) is not None for key in keys] == [True, True, True, False, False]


def test_gc_by_size(tmp_path: Path) -> None:
    """Over the size limit the longest unused go first; a hit counts as a use."""
    filled, keys = _filled(tmp_path, 5)
    one = filled.ls()[0].bytes
    assert filled.get(keys[4])
    cache = Cache(tmp_path, max_bytes=3 * one + one // 2)
    assert cache.gc().removed == 2
    assert [cache.get(key) is not None for key in keys] == [True, True, False, False, True]
    assert sum(entry.bytes for entry in cache.ls()) <= 3 * one + one // 2


def test_limits_hold_without_gc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writers look at the limits now and then: a folder does not grow until somebody calls `gc`."""
    monkeypatch.setattr(module, "_GC_EVERY", 4)
    cache = Cache(tmp_path, max_bytes=3000)
    for number in range(21):
        cache.put(replace(KEY, agent=str(number)), ENTRY)
    assert len(cache.ls()) < 10


def test_verify(tmp_path: Path) -> None:
    """`verify` counts whole entries and names damaged ones with the fault; after it the folder is clean."""
    cache, keys = _filled(tmp_path, 3)
    (_folder(cache, keys[1]) / "kernel.cu").write_text("// changed")
    found = cache.verify()
    assert found.good == 2 and found.damaged[0][0] == keys[1].digest() and "kernel.cu" in found.damaged[0][1]
    assert cache.verify() == module.Verified(2, ())


def test_foreign_files_are_left_alone(tmp_path: Path) -> None:
    """What is not named like an entry is neither listed nor deleted."""
    cache, _ = _filled(tmp_path, 1)
    (tmp_path / "v1" / "notes.txt").write_text("mine")
    Cache(tmp_path, max_bytes=0).gc()
    assert (tmp_path / "v1" / "notes.txt").exists() and cache.ls() == []


def test_manifest_is_canonical() -> None:
    """The manifest is plain JSON with the digest of each file, for a reader without amk."""
    manifest = json.loads(pack(KEY, ENTRY)[MANIFEST])
    assert set(manifest["files"]) == set(LIMITS) - {MANIFEST} and manifest["key"]["target"] == "sm_90"
