"""Arrays in, arrays out: the stages of a run on what one has in memory.

``counting`` and ``measuring`` see the truth; ``result`` and all that it imports cannot."""
