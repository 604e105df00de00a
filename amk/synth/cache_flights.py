"""One thread makes, the others that ask for the same key wait: a key and a way to make its value in, the value out."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

__all__ = ["Flights"]

T = TypeVar("T")


class Flights(Generic[T]):
    """Keys that are being made. Nothing is kept of a value, nor of a fault, once it has been handed out."""

    def __init__(self) -> None:
        self._reset()

    def share(self, key: Hashable, make: Callable[[], T]) -> tuple[T, bool]:
        """The value, and whether this call made it.

        Threads that ask for one key at once share one `make`, and its exception if it fails, after which the key is
        free again. Other keys never wait. `make` must not ask for its own key.
        """
        flight, leader = self._join(key)
        if not leader:
            return flight.result(), False
        try:
            made = make()
            flight.set_result(made)
        except BaseException as error:
            flight.set_exception(error)
            raise
        finally:
            self._leave(key)
        return made, True

    def _join(self, key: Hashable) -> tuple[Future[T], bool]:
        with self._locked():
            leader = key not in self._flights
            return self._flights.setdefault(key, Future()), leader

    def _leave(self, key: Hashable) -> None:
        with self._locked():
            self._flights.pop(key, None)

    def _locked(self) -> threading.Lock:
        if self._pid != os.getpid():
            self._reset()
        return self._guard

    def _reset(self) -> None:
        """A fork copies locks and flights of threads that do not exist in the child: nobody would ever end them."""
        self._pid, self._guard = os.getpid(), threading.Lock()
        self._flights: dict[Hashable, Future[T]] = {}
