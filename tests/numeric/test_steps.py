"""What of a step is worked out beforehand."""

from __future__ import annotations

from meanfield.numeric.steps import hoisted


def test_parts_that_need_parameters_alone() -> None:
    lines = [
        "t0 = w*w",
        "t1 = q*math.sqrt(1.0 + t0) + math.sqrt(1.0 + t0)/delta",
        "t2 = t1 + 2.0*w + (1.0/3.0)*b",
        "q, delta = (t2 if q < 1.0 else flat_angle(b, w)), root(w, q)",
        "t3 = q + w*w*b",
    ]
    before, others = hoisted(lines, {"w", "b", "flat_angle", "root"}, {"q", "delta", "w", "b", "held", "held_1"})
    assert before == ["t0 = w*w", "held_2 = math.sqrt(1.0 + t0)", "held_3 = flat_angle(b, w)", "held_4 = w * w * b"]
    assert others == [
        "t1 = q * held_2 + held_2 / delta",
        "t2 = t1 + 2.0*w + (1.0/3.0)*b",
        "q, delta = (t2 if q < 1.0 else held_3, root(w, q))",
        "t3 = q + held_4",
    ]
