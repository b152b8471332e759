"""First guesses of 1/sqrt(x) where the processor has an instruction for that: 14 bits as fast as a product, of a number or a vector.

A loop becomes vector code before the guesses are put into it: until then a guess is a call that names its forms for vectors.
"""

from __future__ import annotations

from typing import Any

from llvmlite import binding, ir

__all__ = ["FEATURES", "planted", "seed"]

#: what a processor needs
FEATURES = frozenset(("+avx512f", "+avx512vl", "+fma"))
_NAME, _WIDTHS = "guess", {2: 128, 4: 256, 8: 512}
_SCALAR = """
define linkonce_odr double @{name}(double %x) alwaysinline {{
  %v = insertelement <2 x double> zeroinitializer, double %x, i32 0
  %r = call <2 x double> @llvm.x86.avx512.rsqrt14.sd(<2 x double> %v, <2 x double> %v, <2 x double> zeroinitializer, i8 -1)
  %s = extractelement <2 x double> %r, i32 0
  ret double %s
}}
declare <2 x double> @llvm.x86.avx512.rsqrt14.sd(<2 x double>, <2 x double>, <2 x double>, i8)
"""
_VECTOR = """
define linkonce_odr <{n} x double> @{name}_{n}(<{n} x double> %x) alwaysinline {{
  %r = call <{n} x double> @llvm.x86.avx512.rsqrt14.pd.{bits}(<{n} x double> %x, <{n} x double> zeroinitializer, i8 -1)
  ret <{n} x double> %r
}}
declare <{n} x double> @llvm.x86.avx512.rsqrt14.pd.{bits}(<{n} x double>, <{n} x double>, i8)
"""


def seed(module: ir.Module) -> ir.Function:
    """The guess of a number, to be called in that module."""
    if _NAME in module.globals:
        return module.globals[_NAME]
    double, forms = ir.DoubleType(), []
    made = ir.Function(module, ir.FunctionType(double, [double]), _NAME)
    for n in _WIDTHS:
        vector = ir.VectorType(double, n)
        forms.append(_pure(ir.Function(module, ir.FunctionType(vector, [vector]), f"{_NAME}_{n}")))
    names = ",".join(f"_ZGV_LLVM_N{n}v_{_NAME}({_NAME}_{n})" for n in _WIDTHS)
    set.add(made.attributes, f'"vector-function-abi-variant"="{names}"')  # llvmlite has no list of these
    used = ir.GlobalVariable(module, ir.ArrayType(ir.IntType(8).as_pointer(), len(forms)), "llvm.compiler.used")
    used.linkage, used.section = "appending", "llvm.metadata"
    used.initializer = ir.Constant(used.value_type, [f.bitcast(ir.IntType(8).as_pointer()) for f in forms])
    return _pure(made)


def _pure(f: ir.Function) -> ir.Function:
    for attribute in ("readnone", "nounwind", "willreturn"):
        set.add(f.attributes, attribute)
    return f


def planted(optimised: Any, passes: Any) -> None:
    """Put the guesses into an optimised module that calls them."""
    if not any(f.name.startswith(_NAME) for f in optimised.functions):
        return
    forms = "".join(_VECTOR.format(name=_NAME, n=n, bits=bits) for n, bits in _WIDTHS.items())
    optimised.link_in(binding.parse_assembly(_SCALAR.format(name=_NAME) + forms))
    last = binding.create_new_module_pass_manager()
    last.add_always_inliner_pass()
    last.run(optimised, passes)
