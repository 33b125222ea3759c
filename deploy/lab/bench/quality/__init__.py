"""`afterturn bench recall --quality`: measures over HTTP whether recall finds the evidence for answers.

Entry points: `formats.read_dialogues` and `run.measure_quality`; `figures` computes the figures.
"""
