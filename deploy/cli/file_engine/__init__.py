"""Reads the folders that the file engine of the memory tools writes, canonical and legacy."""
