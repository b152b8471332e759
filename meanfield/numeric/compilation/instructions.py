"""Instructions that compilers do not use by themselves: first guesses of 1/x and 1/sqrt(x), a number times a power of two, tables of
sixteen in registers. Each takes as long as a product or two, of a number or of a vector, where the processor has it.

A loop becomes vector code before they are put into it: until then they are calls that name their forms for vectors.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import Any

from llvmlite import binding, ir

__all__ = ["FEATURES", "instruction", "needed", "planted"]

#: what a processor needs
FEATURES = frozenset(("+avx512f", "+avx512vl", "+fma"))
_WIDTHS = {2: 128, 4: 256, 8: 512}
_LAST = "i32 4"  # rounding as it is set
#: 2^(j/16), and how much more that is than the double
_ROOT = (
    *(1.0, 1.0442737824274138, 1.0905077326652577, 1.1387886347566916, 1.189207115002721, 1.241857812073484, 1.2968395546510096),
    *(1.3542555469368927, 1.4142135623730951, 1.4768261459394993, 1.5422108254079407, 1.6104903319492543, 1.681792830507429),
    *(1.7562521603732995, 1.8340080864093424, 1.9152065613971474),
)
_REST = (
    *(0.0, 8.551889705537965e-17, -3.046782079812471e-17, 8.912812676025408e-17, 3.982015231465646e-17, 4.658027591836937e-17),
    *(2.5382502794888315e-17, 7.70094837980299e-17, -9.667293313452913e-17, -3.483994556892796e-17, 7.949834809697621e-17),
    *(2.4707192569797888e-17, 8.199010020581497e-17, 2.960140695448873e-17, 3.283107224245627e-17, -1.0619946056195963e-16),
)


def _first(a: str) -> str:
    """a vector with the number in front"""
    return f"insertelement <2 x double> zeroinitializer, double {a}, i32 0"


def _guessed(of: str, n: int, x: str) -> str:
    """1/x or 1/sqrt(x) to 14 bits"""
    if n == 1:
        return f"""
  %v = {_first(x)}
  %r = call <2 x double> @llvm.x86.avx512.{of}14.sd(<2 x double> %v, <2 x double> %v, <2 x double> zeroinitializer, i8 -1)
  %s = extractelement <2 x double> %r, i32 0"""
    return f"""
  %s = call <{n} x double> @llvm.x86.avx512.{of}14.pd.{_WIDTHS[n]}(<{n} x double> {x}, <{n} x double> zeroinitializer, i8 -1)"""


def _scaled(n: int, x: str, k: str) -> str:
    """x 2^k for the whole number below k"""
    if n == 1:
        return f"""
  %v = {_first(x)}
  %w = {_first(k)}
  %r = call <2 x double> @llvm.x86.avx512.mask.scalef.sd(<2 x double> %v, <2 x double> %w, <2 x double> zeroinitializer, i8 -1, {_LAST})
  %s = extractelement <2 x double> %r, i32 0"""
    kind, last = f"<{n} x double>", f", {_LAST}" * (n == 8)
    return f"""
  %s = call {kind} @llvm.x86.avx512.mask.scalef.pd.{_WIDTHS[n]}({kind} {x}, {kind} {k}, {kind} zeroinitializer, i8 -1{last})"""


def _looked_up(table: str, n: int, t: str) -> str:
    """the number of a table at the last four bits of t"""
    if n == 1:
        return f"""
  %i = bitcast double {t} to i64
  %j = and i64 %i, 15
  %p = getelementptr inbounds double, ptr @{table}_row, i64 %j
  %s = load double, ptr %p"""
    places, used = (", ".join(f"i32 {k if k < n else 'poison'}" for k in range(size)) for size in (8, n))
    low, high = (f"<8 x double> <{', '.join(_TABLES[table][k : k + 8])}>" for k in (0, 8))
    return f"""
  %w = shufflevector <{n} x double> {t}, <{n} x double> poison, <8 x i32> <{places}>
  %i = bitcast <8 x double> %w to <8 x i64>
  %r = call <8 x double> @llvm.x86.avx512.vpermi2var.pd.512({low}, <8 x i64> %i, {high})
  %s = shufflevector <8 x double> %r, <8 x double> poison, <{n} x i32> <{used}>"""


_TABLES = {name: [f"double 0x{struct.pack('>d', v).hex()}" for v in row] for name, row in (("root", _ROOT), ("rest", _REST))}
_FORMS: dict[str, tuple[int, Callable[..., str]]] = {
    "inverse_guess": (1, partial(_guessed, "rcp")),
    "inverse_root_guess": (1, partial(_guessed, "rsqrt")),
    "scaled": (2, _scaled),
    **{name: (1, partial(_looked_up, name)) for name in _TABLES},
}


def instruction(module: ir.Module, name: str) -> ir.Function:
    """The instruction of that name on numbers, to be called in that module."""
    if name not in module.globals:
        double, (count, _) = ir.DoubleType(), _FORMS[name]
        made = ir.Function(module, ir.FunctionType(double, [double] * count), name)
        for n in _WIDTHS:
            vector = ir.VectorType(double, n)
            _pure(ir.Function(module, ir.FunctionType(vector, [vector] * count), f"{name}_{n}"))
        names = ",".join(f"_ZGV_LLVM_N{n}{'v' * count}_{name}({name}_{n})" for n in _WIDTHS)
        set.add(made.attributes, f'"vector-function-abi-variant"="{names}"')  # llvmlite has no list of these
        _pure(made)
    return module.globals[name]


def _pure(f: ir.Function) -> ir.Function:
    for attribute in ("readnone", "nounwind", "willreturn"):
        set.add(f.attributes, attribute)
    return f


def needed(module: ir.Module) -> str:
    """What keeps the forms for vectors in a module that is optimised, as LLVM reads it."""
    forms = [f"ptr @{name}_{n}" for name in _FORMS if name in module.globals for n in _WIDTHS]
    return f'@llvm.compiler.used = appending global [{len(forms)} x ptr] [{", ".join(forms)}], section "llvm.metadata"' if forms else ""


def planted(optimised: Any, passes: Any) -> None:
    """Put the instructions into an optimised module that calls them."""
    names = {f.name for f in optimised.functions}
    called = [name for name in _FORMS if names & {name, *(f"{name}_{n}" for n in _WIDTHS)}]
    if not called:
        return
    rows = [f"@{name}_row = private constant [16 x double] [{', '.join(row)}]" for name, row in _TABLES.items()]
    optimised.link_in(binding.parse_assembly("\n".join([*rows, *(_defined(name, n) for name in called for n in (1, *_WIDTHS))])))
    last = binding.create_new_module_pass_manager()
    last.add_always_inliner_pass()
    last.run(optimised, passes)


def _defined(name: str, n: int) -> str:
    """the source of a form"""
    count, form = _FORMS[name]
    given = [f"%a{k}" for k in range(count)]
    kind, suffix = ("double", "") if n == 1 else (f"<{n} x double>", f"_{n}")
    taken = ", ".join(f"{kind} {a}" for a in given)
    return f"define linkonce_odr {kind} @{name}{suffix}({taken}) alwaysinline {{{form(n, *given)}\n  ret {kind} %s\n}}"
