"""Generated source as machine code: translated to LLVM, optimised, kept as bytes, called from Python."""
