"""Ctrl-C during calls. Python runs signal handlers in its main thread, between two bytecode instructions. A thread that
waits in the library executes none, so the library calls back some 50 times a second."""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
from collections.abc import Callable, Generator
from typing import Any

_Look = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)

raised: list[tuple[int, BaseException]] = []  # errors raised in callbacks, with the thread whose call is still running
main_thread_is_asked = False


def _answers(function: Callable[[Any], Any]) -> Generator[Any, Any, None]:
    answer: Any = None
    while True:
        try:
            while True:
                answer = function((yield answer))
        except GeneratorExit:
            return
        except BaseException as error:  # any error of a handler, above all KeyboardInterrupt
            raised.append((threading.get_ident(), error))
            answer = 1


def callback(kind: Any, function: Callable[[Any], Any]) -> Any:
    """Makes a ctypes callback of type `kind` with one argument. call() raises the errors of `function` after the library
    has returned. Python runs signal handlers as soon as a callback begins, and only prints errors that leave it. So the
    library does not call `function` itself; it resumes a generator, which is inside its `try` then."""
    answers = _answers(function)
    next(answers)
    return kind(answers.send)


_look = callback(_Look, lambda _: any(of == threading.get_ident() for of, _ in raised))


def ask_main_thread(interrupt_by: Callable[[object, object], object]) -> None:
    """Lets the library ask the main thread for signals. Every call calls this until one comes from the main thread.
    `interrupt_by`: penstock_interrupt_by."""
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
    """Resets the state in a forked child, whose main thread is the thread that forked."""
    global main_thread_is_asked
    main_thread_is_asked = False
    raised.clear()


os.register_at_fork(after_in_child=_in_child)
