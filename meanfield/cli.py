"""The command `meanfield`: turns what goes wrong into one sentence and an exit code.

0 done, 1 a check failed or a library of the extras is missing, 2 the input was refused, 130 interrupted.
"""

from __future__ import annotations

import os
import sys

__all__ = ["main", "run"]

#: what the commands need beside the core dependencies, and the extra that installs it
_EXTRAS = {
    "click": "cli", "rich": "cli", "matplotlib": "plot", "markdown_it": "plot", "mdit_py_plugins": "plot", "latex2mathml": "plot",
    "torch": "torch", "xarray": "xarray", "pandas": "xarray",
}  # fmt: skip


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
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return _say("interrupted", 130)
    except ImportError as error:
        return _missing(error)
    except BrokenPipeError:
        return _quiet_pipe()
    except RecursionError:
        return _say("the expression is nested too deeply to be worked out", 2)
    except (ValueError, TypeError, ArithmeticError, OSError, MemoryError, RuntimeError) as error:
        return _say(" ".join(str(error).split()) or type(error).__name__, 2)


def main() -> None:
    """The entry point."""
    sys.exit(run())


def _say(sentence: str, code: int) -> int:
    print(f"meanfield: {sentence}", file=sys.stderr)
    return code


def _quiet_pipe() -> int:
    """the reader (head, less) has gone: nothing is left to say, not even while Python closes the stream"""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _missing(error: ImportError) -> int:
    name = (error.name or "").partition(".")[0]
    if name not in _EXTRAS:
        raise error
    return _say(f'this command needs {name}: pip install "meanfield-nn[{_EXTRAS[name]}]"', 1)
