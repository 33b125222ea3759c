"""A siege of the walls: every public read and write, tried at random across hosts, banks and users.

`besiege` makes several hosts, tries to see from each what belongs to the others, and tells what came of it.
"""

from deploy.walls.siege import Report, Way, besiege

__all__ = ["Report", "Way", "besiege"]
