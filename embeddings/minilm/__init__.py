"""The bundled sentence model (MiniLM) as a graph of our own, made once from the packaged weights."""
