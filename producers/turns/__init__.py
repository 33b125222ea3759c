"""Pure rules of a turn's items: current input, new items, history, reference."""
