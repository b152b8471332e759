"""The step of a generated kernel as C in blocks of points: the same arithmetic, the vector code of the compiler and its library."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

__all__ = ["FAST", "GLIBC", "library"]

#: for grids, with libmvec; for a single point, with glibc
FAST = "-O3 -march=native -mprefer-vector-width=512 -ffast-math -fopenmp-simd"
GLIBC = "-O3 -march=native -fno-tree-vectorize"

SOURCE = """
#include <math.h>
static inline double angle_minus_sine(double t) {
  double s = t*t, u = s*s;
  double a = 0.16666666666666666 + s*-0.008333333333333333 + u*(0.00019841269841269817 + s*-2.7557319223982017e-06);
  double b = 2.505210838512761e-08 + s*-1.605904382195064e-10 + u*(7.647163292687179e-13 + s*-2.8114489197231916e-15);
  double c = 8.219617574391419e-18 + s*-1.9495555003914384e-20 + u*3.533158292227539e-23;
  return t*s*(a + u*u*(b + u*u*c)); }
static inline double where(int c, double a, double b) { return c ? a : b; }
static inline double guarded(double x, double s) { return x < 0 ? 0 : x; }
static inline double guarded_sqrt(double x, double s) { return sqrt(guarded(x, s)); }
static inline double inverse_root(double x) { return 1/sqrt(x); }
static inline double sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }
static inline double lowered_product(double a, double b) { return a*9.332636185032189e-302*b; }
static inline double acute_angle(double y, double x) { return atan2(y, x); }
static inline double flat_angle(double y, double x) { return atan(y/x); }
static inline double root_angle(double u, double v) { return atan2(sqrt(u), sqrt(v)); }
static inline double segment(double u, double v) { return angle_minus_sine(2*root_angle(u, v)); }
static inline double tangent_segment(double w, double sine) { return angle_minus_sine(2*atan(w)); }
static inline double normal_cdf(double z) { return 0.5*erfc(-z*0.7071067811865476); }
static inline double normal_density(double z) { return 0.3989422804014327*exp(-0.5*z*z); }
void run(long G, long depth, const double *values, const double *q0, const double *d0, double *oq, double *od, double *oj) {
  for (long o = 0; o < G; o += BLOCK) {
    double Q[BLOCK], D[BLOCK], A[BLOCK], B[BLOCK], C[BLOCK], S[BLOCK], HELD;
    for (int i = 0; i < BLOCK; i++) { long g = o+i < G ? o+i : G-1; Q[i] = q0[g]; D[i] = d0[g]; A[i] = C[i] = 1; B[i] = S[i] = 0; LOAD }
    for (long l_ = 0; l_ < depth; l_++) {
      double l = l_, L = depth; (void)l; (void)L;
      _Pragma("omp simd") for (int i = 0; i < BLOCK; i++) { double q = Q[i], delta = D[i]; READ STEP Q[i] = q; D[i] = delta; UPDATE }
      if ((l_ & 7) == 7)
        _Pragma("omp simd") for (int i = 0; i < BLOCK; i++) { double f = 1.0/A[i]; S[i] += log(A[i]); A[i] = 1; B[i] *= f; }
    }
    for (int i = 0; i < BLOCK && o+i < G; i++) { oq[o+i] = Q[i]; od[o+i] = D[i]; oj[o+i] = S[i] + log(A[i]); }
  }
}
"""


def library(case: dict[str, Any], flags: str, block: int, folder: Path) -> str:
    """Compile the step into the folder; the name of what can be loaded."""
    given, hoisted, held, r = case["given"], case["selected_before"], case["held"], case["results"]
    update = f"double a = A[i]*{r[0]}; A[i] = a; C[i] *= {r[-1] if len(r) in (2, 5) else r[0]};"
    if len(r) >= 4:
        update = f"double a = A[i]*{r[0]} + B[i]*{r[2]}, b = A[i]*{r[1]} + B[i]*{r[3]}; A[i] = a; B[i] = b; C[i] *= {r[4 % len(r)]};"
    load = " ".join(f"double {name} = values[{k}*G + g];" for k, name in enumerate(given))
    load += " ".join(_statement(line, set()) for line in hoisted) + " ".join(f"V_{name}[i] = {name};" for name in held)
    seen = {"q", "delta"}
    put = {
        "HELD": ", ".join(f"V_{name}[BLOCK]" for name in held),
        "LOAD": load,
        "UPDATE": update,
        "READ": " ".join(f"double {name} = V_{name}[i];" for name in held),
        "STEP": " ".join(_statement(line, seen) for line in case["selected"]),
        "BLOCK": str(block),
    }
    source = SOURCE
    for name, text in put.items():
        source = source.replace(name, text)
    (folder / "step.c").write_text(source)
    command = ["gcc", str(folder / "step.c"), "-shared", "-fPIC", "-w", "-o", str(folder / "step.so"), *flags.split(), "-lmvec", "-lm"]
    subprocess.run(command, check=True)
    return "step.so"


def _statement(line: str, seen: set[str]) -> str:
    """a line of Python as one of C"""
    name, _, value = line.partition(" = ")
    value = re.sub(r"\b(min|max)\(", r"f\1(", value.replace("math.", "").replace("abs(", "fabs("))
    if name == "q, delta":
        end = next(k for k, c in enumerate(value) if c == "," and value[:k].count("(") == value[:k].count(")"))
        return f"{{ double q_ = {value[:end]}; delta = {value[end + 1 :]}; q = q_; }}"
    new = name not in seen
    seen.add(name)
    return f"{'double ' * new}{name} = {value};"
