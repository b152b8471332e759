"""The command `meanfield`: turns what goes wrong into one sentence and an exit code.

0 done, 1 a check failed or a library of the extras is missing, 2 the input was refused, 130 interrupted.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from meanfield import extras

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

__all__ = ["main", "run"]


def run(arguments: list[str] | None = None) -> int:
    """Run a command line (that of the process if left out) and return its exit code."""
    try:
        import click

        from meanfield.commands import group
    except ImportError as error:
        return _missing(error)
    except KeyboardInterrupt:
        return _say("interrupted", 130)
    try:
        code = group.main(args=arguments, prog_name="meanfield", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.ClickException as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # of click 8.2 and later
            error.show()
            return error.exit_code
        context = getattr(error, "ctx", None)
        return _say(f"{_one_line(error.format_message())}" + (f"; see {context.command_path} --help" if context else ""), error.exit_code)
    except (click.Abort, KeyboardInterrupt) as stop:
        notes = getattr(stop.__cause__ or stop, "__notes__", ())  # click has made an Abort of the interrupt
        return _say("; ".join(["interrupted", *notes]), 130)
    except ImportError as error:
        return _missing(error)
    except (BrokenPipeError, SystemExit):  # click makes the latter of the former
        return _quiet_pipe()
    except RecursionError:
        return _say("the expression is nested too deeply to be worked out", 2)
    except OSError as error:
        return _say(f"{error.filename}: {error.strerror}" if error.filename and error.strerror else _one_line(str(error)), 2)
    except (ValueError, TypeError, ArithmeticError, MemoryError, RuntimeError) as error:
        return _say(_one_line(str(error)) or type(error).__name__, 2)


def main() -> None:
    """The entry point: quiet about an interrupt from its first line on, also where one would reach into an import."""
    before = signal.signal(signal.SIGINT, lambda number, frame: os._exit(130))
    _imported()
    signal.signal(signal.SIGINT, before)
    hear = sys.unraisablehook

    def unheard(lost: UnraisableHookArgs) -> None:
        # in a weak reference's callback, of which imports have many, Python drops what is raised: the interrupt comes again
        if issubclass(lost.exc_type, KeyboardInterrupt):
            again = threading.Timer(0.05, _interrupt)
            again.daemon = True
            again.start()
        else:
            hear(lost)

    sys.unraisablehook = unheard
    sys.exit(run())


def _interrupt() -> None:
    """the main thread, also where it waits, if the system can"""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    else:
        signal.raise_signal(signal.SIGINT)


def _imported() -> None:
    """load what a command needs, before it may be interrupted; what is missing is said by `run`"""
    with suppress(ImportError):
        importlib.import_module("meanfield.commands")


def _one_line(text: str) -> str:
    return " ".join(text.split()).removesuffix(".")


def _say(sentence: str, code: int) -> int:
    print(f"meanfield: {sentence}", file=sys.stderr)
    return code


def _quiet_pipe() -> int:
    """the reader (head, less) has gone: nothing is left to say, not even while Python closes the stream"""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _missing(error: ImportError) -> int:
    name = (error.name or "").partition(".")[0]
    command = extras.install(name)
    if command is None:
        raise error
    return _say(f"this command needs {name}: {command}", 1)
