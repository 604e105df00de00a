"""Synthesis: a certified descriptor becomes CUDA text, the text a cubin, the cubin a cache entry."""
