"""Compiled programs are kept between processes: where, how many, quietly, and not where the user does not want it."""

import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from carom.xla import machine, programs

SOLVE = """
import carom, jax, jax.numpy as jnp, time
where = carom.xla.programs.program_cache()
jax.block_until_ready(jax.jit(lambda x: jax.lax.fori_loop(0, 9, lambda i, x: jnp.sin(x) @ jnp.cos(x.T), x))(jnp.ones((3, 3))))
print(where.folder, where.why, jax.config.jax_compilation_cache_max_size, sep="|")
"""


def run(code: str = SOLVE, **changes: str) -> subprocess.CompletedProcess:
    """In a process of its own, on the processor, with nothing else set but what is said here."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "CAROM_", "XDG_", "TF_"))} | {
        "JAX_PLATFORMS": "cpu"
    }
    return subprocess.run([sys.executable, "-c", code], env={**inherited, **changes}, capture_output=True, text=True, check=True)


def test_they_are_kept_by_default_and_found_again(tmp_path):
    # All of them, however little time they took: which ones compile for longer than WORTH_KEEPING differs from run to run.
    every = {"CAROM_CACHE_DIR": str(tmp_path), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    folder, why, bound = run(**every).stdout.strip().split("|")
    assert Path(folder).parent == tmp_path / "programs" and why == "carom's own" and int(bound) == programs.LARGEST
    kept = {f: f.stat().st_mtime_ns for f in Path(folder).glob("*-cache")}
    assert any("lambda" in f.name for f in kept)
    again = run(**every)
    assert {f: f.stat().st_mtime_ns for f in Path(folder).glob("*-cache")} == kept  # nothing was compiled anew
    assert again.stderr == ""


def test_two_processes_write_at_once(tmp_path):
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "CAROM_"))}
    inherited |= {"CAROM_CACHE_DIR": str(tmp_path), "JAX_PLATFORMS": "cpu"}
    both = [subprocess.Popen([sys.executable, "-c", SOLVE], env=inherited, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    assert [p.communicate()[1] for p in both] == ["", ""] and [p.returncode for p in both] == [0, 0]


def test_not_where_the_user_says_no_or_elsewhere(tmp_path):
    assert run(CAROM_CACHE="0", CAROM_CACHE_DIR=str(tmp_path)).stdout.startswith("None|CAROM_CACHE=0|")
    assert not (tmp_path / "programs").exists()
    own = tmp_path / "own"
    told = run(JAX_COMPILATION_CACHE_DIR=str(own), CAROM_CACHE_DIR=str(tmp_path)).stdout
    assert told.startswith(f"{own}|the folder that JAX was given|-1")  # as it was, also without a bound
    later = f"import jax; jax.config.update('jax_compilation_cache_dir', {str(own)!r})\n"
    assert run(later + SOLVE, CAROM_CACHE_DIR=str(tmp_path)).stdout.startswith(f"{own}|the folder")
    assert not (tmp_path / "programs").exists()


def test_a_folder_that_cannot_be_made_breaks_nothing(tmp_path):
    (tmp_path / "file").write_text("")
    ran = run(CAROM_CACHE_DIR=str(tmp_path / "file"))
    assert ran.stdout.startswith("None|the folder cannot be made") and ran.stderr == ""


@pytest.mark.parametrize(
    "system, variables, expected",
    [
        ("linux", {"XDG_CACHE_HOME": "/x"}, "/x/carom"),
        ("linux", {"HOME": "/h"}, "/h/.cache/carom"),
        ("darwin", {"HOME": "/h"}, "/h/Library/Caches/carom"),
        ("win32", {"LOCALAPPDATA": "/l", "XDG_CACHE_HOME": "/x"}, "/l/carom/cache"),
        ("win32", {"CAROM_CACHE_DIR": "/mine", "LOCALAPPDATA": "/l"}, "/mine"),
    ],
)
def test_the_folder_is_where_the_platform_has_it(monkeypatch, system, variables, expected):
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA", "CAROM_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(machine.sys, "platform", system)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert machine.cache_root() == Path(expected)


def test_another_machine_has_another_folder(monkeypatch):
    here = machine.environment()
    assert machine.environment() == here and machine.environment("more") != here
    monkeypatch.setattr(machine, "processor", lambda: machine.Processor("other", ("avx",)))
    assert machine.environment() != here


def test_cores_without_affinity(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert machine.cores() == os.cpu_count()


@pytest.fixture(scope="module")
def forged(tmp_path_factory):
    """A kept program whose list of features has one that no processor has: XLA's loader tells about it at length."""
    folder = tmp_path_factory.mktemp("forged")
    folder = Path(run(CAROM_CACHE_DIR=str(folder)).stdout.split("|")[0])
    for file in folder.glob("*-cache"):
        try:
            text = zlib.decompress(file.read_bytes())
        except zlib.error:
            pytest.skip("this Python packs the programs otherwise")
        file.write_bytes(zlib.compress(text.replace(b"+sse4.2", b"+sse9.9").replace(b"+neon", b"+noen")))
    return folder.parents[1]


class TestTheLoaderIsQuiet:
    def test_where_it_is_known_to_complain(self, forged):
        told = run("import carom.xla.programs as p; p.quiet_loader()\n" + SOLVE, CAROM_CACHE_DIR=str(forged)).stderr
        assert "SIGILL" not in told

    def test_control_it_does_complain(self, forged):
        loud = "import carom.xla.programs as p\n" + SOLVE
        assert "SIGILL" in run(loud, CAROM_CACHE_DIR=str(forged), TF_CPP_MIN_LOG_LEVEL="0").stderr

    def test_a_level_that_the_user_chose_stays(self, forged):
        chosen = "import carom.xla.programs as p; p.quiet_loader()\n" + SOLVE
        assert "SIGILL" in run(chosen, CAROM_CACHE_DIR=str(forged), TF_CPP_MIN_LOG_LEVEL="0").stderr

    def test_processors_with_avx512(self, monkeypatch, tmp_path):
        code = (
            "import carom.xla.machine as m; quiet = []\n"
            "import carom.xla.programs as p; p.quiet_loader = lambda: quiet.append(1)\n"
            "import jax\n"
            "for features in (('avx2',), ('avx2', 'avx512f')):\n"
            "    jax.config.update('jax_compilation_cache_dir', None)\n"
            "    p.processor = m.processor = lambda: m.Processor('x', features)\n"
            "    p.keep_programs(); print(len(quiet))\n"
        )
        assert run(code, CAROM_CACHE_DIR=str(tmp_path)).stdout.split() == ["0", "1"]


def test_a_program_is_kept_where_writing_it_takes_less_than_compiling(tmp_path):
    assert programs.worth_keeping(tmp_path) == programs.WORTH_KEEPING
    for i in range(400):
        (tmp_path / f"jit_f-{i}-cache").touch()
        (tmp_path / f"jit_f-{i}-atime").touch()
    assert programs.worth_keeping(tmp_path) == 400 * programs.LOOK > programs.WORTH_KEEPING
