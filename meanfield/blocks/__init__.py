"""Blocks, each one law on second moments.

algebra        signals, laws, and the four ways in which blocks compose
elementary     Linear, Activate, Scale, Dropout, MLP, Derf, DyT
norms          LayerNorm, RMSNorm, BatchNorm
attention, softmax, fixed    attention: by its softmax (annealed or quenched), shaped, uniform; with fixed weights, as under a mask
gated, gau     products of branches (GLU, SwiGLU), and the gated attention unit
"""
