"""Who computes the blocks of a sweep: this process, a pool of processes on this machine, or a dask cluster.

All three yield (number, result) in the order in which blocks finish. A block that fails, or whose worker dies, is tried again;
after `retries` more times its exception is yielded instead of a result.
"""

import concurrent.futures
import pickle
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from carom.errors import InputError
from carom.many.processes import Processes
from carom.xla.machine import cores

Task = tuple[int, list[dict[str, Any]]]
Work = Callable[[list[dict[str, Any]]], Any]


def run_blocks(
    work: Work, tasks: list[Task], workers: int | None, scheduler: str | None, retries: int, total: int, progress: bool | None
) -> Iterator[tuple[int, Any]]:
    if retries < 0 or (workers is not None and workers < 0):
        raise InputError("workers and retries must not be negative")
    if scheduler is not None:
        results = _on_dask(work, tasks, scheduler, retries)
    elif workers == 0 or not tasks:
        results = _here(work, tasks, retries)
    else:
        results = _in_pool(work, tasks, min(workers or cores(), len(tasks)), retries)
    sizes = {number: len(points) for number, points in tasks}
    return _with_progress(results, sizes, total, progress)


def compute(pickled: bytes, points: list[dict[str, Any]]) -> Any:
    """In a worker. The work travels as bytes: whether it can is known before anything starts."""
    return pickle.loads(pickled)(points)


def _pickled(work: Work) -> bytes:
    try:
        return pickle.dumps(work)
    except Exception as error:  # pickle raises what it likes
        raise InputError(
            f"the model, the method and measure go to other processes and must be importable there ({error}): "
            "define them at the top of a module, or pass workers=0"
        ) from error


def _here(work: Work, tasks: Iterable[Task], retries: int) -> Iterator[tuple[int, Any]]:
    for number, points in tasks:
        for attempt in range(retries + 1):
            try:
                yield number, work(points)
                break
            except Exception as error:  # whatever the user's functions raise
                if attempt == retries:
                    yield number, error


def _in_pool(work: Work, tasks: list[Task], workers: int, retries: int) -> Iterator[tuple[int, Any]]:
    """A pool breaks as a whole when one of its processes dies: then another one takes over what was not finished."""
    pickled = _pickled(work)
    waiting, attempts = dict(tasks), dict.fromkeys((number for number, _ in tasks), 0)
    while waiting:
        with Processes(workers) as pool:
            running: dict[Any, int] = {}
            queue = iter(list(waiting))
            try:
                while True:
                    while len(running) < 2 * workers and (number := next(queue, None)) is not None:
                        running[pool.submit(compute, pickled, waiting[number])] = number
                    if not running:
                        break
                    for future in concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED).done:
                        result = _outcome(future)
                        number = running.pop(future)
                        if isinstance(result, BaseException):
                            attempts[number] += 1
                            if attempts[number] <= retries:
                                if isinstance(result, BrokenProcessPool):
                                    raise result
                                running[pool.submit(compute, pickled, waiting[number])] = number
                                continue
                        del waiting[number]
                        yield number, result
            except BrokenProcessPool:
                continue


def _outcome(future: Any) -> Any:
    try:
        return future.result()
    except Exception as error:
        return error


def _on_dask(work: Work, tasks: list[Task], scheduler: str, retries: int) -> Iterator[tuple[int, Any]]:
    try:
        from distributed import Client, as_completed
    except ImportError as error:
        raise InputError("scheduler= needs dask: pip install 'carom[cluster]'") from error
    pickled = _pickled(work)
    try:
        client = Client(scheduler, timeout="20s")
    except (OSError, ValueError) as error:
        raise InputError(f"no dask scheduler answers at {scheduler}: {error}") from error
    with client:
        futures = {client.submit(compute, pickled, points, pure=False, retries=retries): number for number, points in tasks}
        for future in as_completed(futures):
            number = futures[future]
            yield number, _outcome(future)
            future.release()


# -- how far it is -------------------------------------------------------------------------------------------------------


def _with_progress(
    results: Iterator[tuple[int, Any]], sizes: dict[int, int], total: int, wanted: bool | None
) -> Iterator[tuple[int, Any]]:
    if not (sys.stderr.isatty() if wanted is None else wanted):
        yield from results
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("points"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        before, start, count = total - sum(sizes.values()), time.monotonic(), 0
        task = bar.add_task("", total=total, completed=before, rate="")
        for number, result in results:
            count += sizes[number]
            rate = count / max(time.monotonic() - start, 1e-9)
            bar.update(task, completed=before + count, rate=f"{rate:,.1f}/s")
            yield number, result
