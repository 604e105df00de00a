"""RUN: arrays of any framework come in, launches go out. CUDA starts at the first call, never on import."""
