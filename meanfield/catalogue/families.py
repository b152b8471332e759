"""How an activation is declared: a function of its parameters that returns an expression in mf.x, its docstring the citation."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import sympy as sp

from meanfield import arguments, symbols
from meanfield.activation import Activation

__all__ = ["Catalogue", "Declaration", "Family", "parameter"]

Declaration = Callable[..., sp.Expr]


def parameter(value: Any, name: str, kind: str = "real") -> sp.Expr:
    """A parameter of an activation, exact; left out (None) it is the symbol of that name.

    `kind` is the assumption that must hold where sympy can decide it: "real", "nonzero", "positive", "nonnegative" or "negative".
    """
    result = arguments.coefficient(symbols.parameter(name) if value is None else value, name)
    if getattr(result, f"is_{kind}") is False:
        raise ValueError(f"{name} = {result}: expected a {kind} number")
    return result


#: arguments of torch's classes that are no parameters of a function: of every activation, or of one
_OF_TORCH = {
    "inplace": "it says where torch writes its result",
    "gelu approximate": "its tanh form is an activation of its own, gelu_tanh",
    "softplus threshold": "it is a numerical switch of torch, which returns x beyond it: no part of the function",
}


@dataclass(frozen=True, repr=False, eq=False)
class Family(Activation):
    """An activation of the catalogue: itself the member with default parameters, and called, the member with those given."""

    declaration: Declaration = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        plain = [p.replace(annotation=p.empty) for p in inspect.signature(self.declaration).parameters.values()]
        signature = inspect.Signature(plain)
        vars(self).update(
            __name__=self.name, __signature__=signature, __doc__=f"{self.name}{signature}\n\n{inspect.getdoc(self.declaration)}"
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Activation:
        own = list(inspect.signature(self).parameters)
        if len(args) > len(own):
            raise TypeError(f"{self.name} takes {', '.join(own) or 'no parameters'}: got {len(args)} ({', '.join(map(repr, args))})")
        for unknown in (name for name in kwargs if name not in own):
            told = _OF_TORCH.get(unknown) or _OF_TORCH.get(f"{self.name} {unknown}")
            why = f" ({told})" if told else arguments.meant(unknown, own)
            raise TypeError(f"{self.name} has no parameter {unknown}{why}: {', '.join(own) or 'it has none'}")
        expression = self.declaration(*args, **kwargs)
        if expression == self.expression:
            return self
        given = inspect.signature(self).bind(*args, **kwargs).arguments
        return Activation(expression, f"{self.name}({', '.join(_told(name, value) for name, value in given.items())})")


def _told(name: str, value: Any) -> str:
    if value is None:  # the symbol of that name
        return f"{name}={name}"
    exact = tuple(arguments.expression(v, name) for v in value) if isinstance(value, Sequence) else arguments.expression(value, name)
    return f"{name}={exact}"


class Catalogue(Mapping[str, Any]):
    """Activations by name, each built when it is first asked for; an alias gives the same object.

    Every public function of the modules declares one, under its name. Capitals and underscores do not matter: torch's class names do.
    """

    def __init__(self, modules: Iterable[ModuleType], aliases: Mapping[str, str]) -> None:
        self._declared: dict[str, Declaration] = {}
        for module in modules:
            own = {k: f for k, f in vars(module).items() if inspect.isfunction(f) and f.__module__ == module.__name__}
            self._declared.update({name: f for name, f in own.items() if not name.startswith("_")})
        self._aliases = dict(aliases)
        self._folded = {arguments.folded(name): self._aliases.get(name, name) for name in self}
        self._built: dict[str, Activation] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self:
            raise KeyError(f"{name!r} is no activation of the catalogue{arguments.meant(str(name), self)}: {', '.join(self)}")
        name = self._folded[arguments.folded(name)]
        if name not in self._built:
            declaration = self._declared[name]
            self._built[name] = Family(declaration(), name, declaration=declaration)
        return self._built[name]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and arguments.folded(name) in self._folded

    def __iter__(self) -> Iterator[str]:
        yield from self._declared
        yield from self._aliases

    def __len__(self) -> int:
        return len(self._declared) + len(self._aliases)

    def __repr__(self) -> str:
        return f"activations: {', '.join(self)}"

    @property
    def definite(self) -> list[str]:
        """The names whose default member has no symbols."""
        symbolic = {k for k, f in self._declared.items() if any(p.default is None for p in inspect.signature(f).parameters.values())}
        return [name for name in self if self._aliases.get(name, name) not in symbolic]
