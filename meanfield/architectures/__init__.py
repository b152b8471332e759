"""Named networks, spelled only with blocks.

perceptrons    mlp, residual_mlp, skip_init
transformers   pre_norm, post_norm, deep_norm, sandwich_norm, parallel_block, layer_scale, rezero
simplified     shaped_attention, value_skipinit, downweighted, sas, sas_p
"""
