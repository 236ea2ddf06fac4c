"""The server with a watch on its event loop: which callbacks take long, in the loop thread's own CPU time, and where threads hold Python.

    python -m benchmarks.stall_server REPORT serve --config config.yaml

A line of JSON in REPORT for each slice of the loop above `SLICE_S` of CPU time, for long runs of the garbage collector, and for each time
that a thread which looks did not get the interpreter for `SILENT_S`, with the places where it was lost. CPU time and not wall time, and of
one thread and not of all, so that other processes on the machine's cores, and models that compute without the interpreter, make no
difference.
"""

from __future__ import annotations

import asyncio
import gc
import json
import runpy
import sys
import threading
import time
import traceback
from types import FrameType
from typing import TextIO

from proxy.app import App

SLICE_S, SILENT_S, TICK_S = 0.03, 0.05, 0.005
WITHOUT = ("onnxruntime_inference_collection.py:", "forward.py:")
"""Where threads compute without the interpreter."""
_places: list[str] = []


def place(frame: FrameType | None) -> str:
    """The innermost frames of a stack that are not the interpreter's own."""
    return " < ".join(
        f"{f.filename.rsplit('/', 2)[-1]}:{f.lineno}:{f.name}" for f in reversed(traceback.extract_stack(frame, limit=None)[-7:])
    )


def watch_loop(report: TextIO) -> None:
    """A beat on the loop: what its thread computed between two of them is one slice, or several that nobody else came between."""
    start = App.start

    async def started(app: App) -> None:
        await start(app)
        asyncio.get_running_loop().call_later(TICK_S, beat, time.thread_time())

    def beat(before: float) -> None:
        took = time.thread_time() - before
        if took > SLICE_S:
            report.write(json.dumps({"slice_s": round(took, 4), "at": _places[-4:]}) + "\n")
            report.flush()
        _places.clear()
        asyncio.get_running_loop().call_later(TICK_S, beat, time.thread_time())

    App.start = started  # type: ignore[method-assign]


def watch_collector(report: TextIO) -> None:
    """The garbage collector has the interpreter for itself, too."""
    began = [0.0]

    def seen(phase: str, what: dict[str, int]) -> None:
        if phase == "start":
            began[0] = time.thread_time()
        elif (took := time.thread_time() - began[0]) > SLICE_S / 3:
            report.write(json.dumps({"collector_s": round(took, 4), **what}) + "\n")
            report.flush()

    gc.callbacks.append(seen)


def watch_interpreter(report: TextIO, main: int) -> None:
    """Look where the loop's thread is, and where all are when nothing ran for a while."""
    last, cpu = time.perf_counter(), _cpu_s()
    while True:
        time.sleep(TICK_S)
        now, cpu_now = time.perf_counter(), _cpu_s()
        frames = sys._current_frames()
        _places.append(place(frames.get(main)))
        if now - last > SILENT_S:
            places = {thread: place(frame) for thread, frame in frames.items() if thread != threading.get_ident()}
            held = {thread: cpu_now.get(thread, 0.0) - cpu.get(thread, 0.0) for thread, at in places.items() if not at.startswith(WITHOUT)}
            if (cpu_s := max(held.values(), default=0.0)) > SILENT_S:
                idle = ("thread.py", "threading.py", "core.py")
                where = [at for thread, at in places.items() if thread != main and not at.startswith(idle)]
                said = {"silent_s": round(now - last, 4), "cpu_s": round(cpu_s, 4), "loop": place(frames.get(main)), "at": where}
                report.write(json.dumps(said) + "\n")
                report.flush()
        last, cpu = now, cpu_now


def _cpu_s() -> dict[int, float]:
    """Of each thread of Python's, so far. No file is read: each call that lets others have the interpreter would wait for it again."""
    return {one.ident: time.clock_gettime(time.pthread_getcpuclockid(one.ident)) for one in threading.enumerate() if one.ident}


if __name__ == "__main__":
    file = open(sys.argv[1], "a", encoding="utf-8")  # noqa: SIM115 - as long as the process
    watch_loop(file)
    watch_collector(file)
    threading.Thread(target=watch_interpreter, args=(file, threading.main_thread().ident), daemon=True).start()
    sys.argv = ["proxy", *sys.argv[2:]]
    runpy.run_module("proxy", run_name="__main__", alter_sys=True)
