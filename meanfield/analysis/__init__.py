"""What a recursion does in the end: answers in closed form where there are any, with certificates where they are numbers.

fixed          `mf.fixed_points`: all of them, isolated by certain changes of sign
criticality    `mf.critical`: parameters at which neighbouring inputs neither merge nor separate
phases         `mf.phase_diagram`: ordered, chaotic and divergent regions with the critical line
growth_laws, growth_check    `mf.growth`: how q, 1 - c and the gradient grow with depth, and a run beside what is predicted
shaping        `mf.deep_kernel_shaping`, `mf.tailored`: activations for a depth
sensitivities  `mf.sensitivity`: exact derivatives of a run
"""
