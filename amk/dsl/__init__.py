"""DESCRIBE: the vocabulary, the IR, its layouts, the targets and the builder. Imports nothing else of amk."""
