"""The errors of pools. Each also derives from the fitting built-in exception."""


class Error(Exception):
    """`status` is the stable name of a penstock_status_t, such as "no_space". The text says what was found, what was
    needed, and the command that fixes it."""

    status: str = "internal"

    def __init__(self, text: str, status: str = "") -> None:
        super().__init__(text)
        if status:
            self.status = status

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else self.status


class InvalidArgumentError(Error, ValueError):
    status = "invalid_argument"


class NotFoundError(Error, LookupError):
    """There is no such pool or object."""

    status = "not_found"


class AlreadyExistsError(Error, FileExistsError):
    status = "already_exists"


class PermissionDeniedError(Error, PermissionError):
    status = "permission"


class NoSpaceError(Error, MemoryError):
    """The pool, /dev/shm or memory is full."""

    status = "no_space"


class DeadlineError(Error, TimeoutError):
    """A wait reached its deadline."""

    status = "deadline"


class PeerDeadError(Error, ConnectionError):
    """The process that this one waited for has died."""

    status = "peer_dead"


def error_of(status: str, text: str) -> Error:
    for kind in (InvalidArgumentError, NotFoundError, AlreadyExistsError, PermissionDeniedError, NoSpaceError,
                 DeadlineError, PeerDeadError):
        if kind.status == status:
            return kind(text, status)
    return Error(text, status)
