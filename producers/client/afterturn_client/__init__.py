"""What runs inside an agent's process: the Afterturn client."""
