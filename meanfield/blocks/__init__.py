"""Blocks, each one law on second moments.

laws           signals, and what a law is
algebra, stacking    the four ways in which blocks compose: Serial, Parallel; Residual, Repeat
elementary     Linear, Activate, Scale, Dropout, MLP, Derf, DyT
norms          LayerNorm, RMSNorm, BatchNorm
attention, softmax, fixed    attention: by its softmax (annealed or quenched), shaped, uniform; with fixed weights, as under a mask
gated, gau     products of branches (GLU, SwiGLU), and the gated attention unit
"""
