"""Ctrl-C in calls. Python runs the handlers of signals in its main thread, between two of its own instructions. A thread
that waits in the library reaches no instruction, so the library calls back some 50 times a second."""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
from collections.abc import Callable, Generator
from typing import Any

_Look = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)

raised: list[tuple[int, BaseException]] = []  # in callbacks: the thread, whose call has not returned yet, and the error
main_thread_is_asked = False


def _answers(function: Callable[[Any], Any]) -> Generator[Any, Any, None]:
    answer: Any = None
    while True:
        try:
            while True:
                answer = function((yield answer))
        except GeneratorExit:
            return
        except BaseException as error:  # whatever a handler raises, KeyboardInterrupt above all
            raised.append((threading.get_ident(), error))
            answer = 1


def callback(kind: Any, function: Callable[[Any], Any]) -> Any:
    """A `kind` of ctypes, of one argument; call() raises an error of `function` after the library has returned. Python runs
    handlers as soon as a callback begins, and an error that leaves a callback is printed and forgotten. So the library does
    not call a function: it resumes a generator, within its `try`."""
    answers = _answers(function)
    next(answers)
    return kind(answers.send)


_look = callback(_Look, lambda _: any(of == threading.get_ident() for of, _ in raised))


def ask_main_thread(interrupt_by: Callable[[object, object], object]) -> None:
    """Called by every call until the main thread has made one. `interrupt_by`: penstock_interrupt_by."""
    global main_thread_is_asked
    if threading.current_thread() is threading.main_thread():
        main_thread_is_asked = True
        interrupt_by(_look, None)
        atexit.register(interrupt_by, _Look(), None)


def raise_of_this_thread() -> None:
    for found in raised:
        if found[0] == threading.get_ident():
            raised.remove(found)
            raise found[1]


def _in_child() -> None:
    """The thread that forks is the main thread of a child."""
    global main_thread_is_asked
    main_thread_is_asked = False
    raised.clear()


os.register_at_fork(after_in_child=_in_child)
