"""Text becomes vectors here: the protocol every room may import, and the models behind it."""
